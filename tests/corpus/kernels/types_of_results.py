"""The type of every result: Triton's promotion of blocks, Python numbers and arguments.

A kernel writes a number that stands for the type, so that a GPU's answer can be kept.
"""

import torch
import triton
import triton.language as tl

from tests.corpus.case import Case, out

NUMBERS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
)


@triton.jit
def type_code(x):
    """Width, and for floats 1000 times the bits of the mantissa, for unsigned integers 500."""
    if x.dtype.is_floating():
        return x.dtype.primitive_bitwidth + 1000 * x.dtype.fp_mantissa_width
    elif x.dtype.is_int_unsigned():
        return x.dtype.primitive_bitwidth + 500
    else:
        return x.dtype.primitive_bitwidth + 0


@triton.jit
def with_every_type(x_ptr, y_ptrs, out_ptr, COUNT: tl.constexpr):
    x = tl.load(x_ptr)
    for k in tl.static_range(COUNT):
        y = tl.load(y_ptrs[k])
        tl.store(out_ptr + 5 * k, type_code(x + y))
        tl.store(out_ptr + 5 * k + 1, type_code(x - y))
        tl.store(out_ptr + 5 * k + 2, type_code(x * y))
        tl.store(out_ptr + 5 * k + 3, type_code(x < y))
        tl.store(out_ptr + 5 * k + 4, type_code(tl.where(x < y, x, y)))


@triton.jit
def divided_by_every_type(x_ptr, y_ptrs, out_ptr, COUNT: tl.constexpr):
    x = tl.load(x_ptr)
    for k in tl.static_range(COUNT):
        y = tl.load(y_ptrs[k])
        tl.store(out_ptr + 2 * k, type_code(x / y))
        tl.store(out_ptr + 2 * k + 1, type_code(x % y))


@triton.jit
def with_every_integer(x_ptr, y_ptrs, out_ptr, COUNT: tl.constexpr):
    x = tl.load(x_ptr)
    for k in tl.static_range(COUNT):
        y = tl.load(y_ptrs[k])
        tl.store(out_ptr + 6 * k, type_code(x & y))
        tl.store(out_ptr + 6 * k + 1, type_code(x | y))
        tl.store(out_ptr + 6 * k + 2, type_code(x ^ y))
        tl.store(out_ptr + 6 * k + 3, type_code(x << y))
        tl.store(out_ptr + 6 * k + 4, type_code(x >> y))
        tl.store(out_ptr + 6 * k + 5, type_code(x // y))


@triton.jit
def block_and_number(x_ptr, out_ptr):
    x = tl.load(x_ptr)
    tl.store(out_ptr, type_code(x + 1))
    tl.store(out_ptr + 1, type_code(1 - x))
    tl.store(out_ptr + 2, type_code(x * 0.5))
    tl.store(out_ptr + 3, type_code(x + 1e300))
    tl.store(out_ptr + 4, type_code(x * True))
    tl.store(out_ptr + 5, type_code(tl.where(x > 0, x, 0)))
    tl.store(out_ptr + 6, type_code(tl.where(x > 0, x, 0.0)))
    tl.store(out_ptr + 7, type_code(tl.maximum(x, 0)))
    tl.store(out_ptr + 8, type_code(x > 0.5))


@triton.jit
def divided_by_number(x_ptr, out_ptr):
    x = tl.load(x_ptr)
    tl.store(out_ptr, type_code(x / 2))
    tl.store(out_ptr + 1, type_code(x / 2.0))
    tl.store(out_ptr + 2, type_code(1.0 / x))


@triton.jit
def maximum_with_float(x_ptr, out_ptr):
    x = tl.load(x_ptr)
    tl.store(out_ptr, type_code(tl.maximum(x, 0.0)))
    tl.store(out_ptr + 1, type_code(tl.minimum(x, 0.0)))


@triton.jit
def large_numbers(x_ptr, out_ptr):
    x = tl.load(x_ptr)
    tl.store(out_ptr, type_code(x + 2147483647))
    tl.store(out_ptr + 1, type_code(x + (-2147483648)))


@triton.jit
def arguments(flag, small, large, huge, real, out_ptr):
    tl.store(out_ptr, type_code(small + 0))
    tl.store(out_ptr + 1, type_code(large))
    tl.store(out_ptr + 2, type_code(huge))
    tl.store(out_ptr + 3, type_code(real))
    tl.store(out_ptr + 4, type_code(flag))
    tl.store(out_ptr + 5, type_code(small * real))
    tl.store(out_ptr + 6, type_code(small + large))
    tl.store(out_ptr + 7, type_code(small / 2))


@triton.jit
def added_argument(x_ptr, n, out_ptr):
    # an argument that is 1 is a constant, and so takes the block's type
    tl.store(out_ptr, type_code(tl.load(x_ptr) + n))


@triton.jit(do_not_specialize=["n"])
def added_variable(x_ptr, n, out_ptr):
    tl.store(out_ptr, type_code(tl.load(x_ptr) + n))


@triton.jit
def reductions(x_ptr, out_ptr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    tl.store(out_ptr, type_code(tl.sum(x, 0)))
    tl.store(out_ptr + 1, type_code(tl.max(x, 0)))
    tl.store(out_ptr + 2, type_code(tl.min(x, 0)))
    tl.store(out_ptr + 3, type_code(tl.argmax(x, 0)))
    tl.store(out_ptr + 4, type_code(tl.argmin(x, 0)))
    tl.store(out_ptr + 5, type_code(tl.cumsum(x, 0)))
    tl.store(out_ptr + 6, type_code(tl.cumprod(x, 0)))


@triton.jit
def sums_of_a_type(x_ptr, out_ptr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    tl.store(out_ptr, type_code(tl.sum(x, 0, dtype=tl.float32)))
    tl.store(out_ptr + 1, type_code(tl.sum(x, 0, dtype=tl.int64)))
    tl.store(out_ptr + 2, type_code(tl.cumsum(x, 0, dtype=tl.float32)))


@triton.jit
def what_the_language_makes(out_ptr):
    tl.store(out_ptr, type_code(tl.program_id(0)))
    tl.store(out_ptr + 1, type_code(tl.num_programs(0)))
    tl.store(out_ptr + 2, type_code(tl.arange(0, 4)))
    tl.store(out_ptr + 3, type_code(tl.zeros((4,), tl.bfloat16)))
    tl.store(out_ptr + 4, type_code(tl.full((4,), 3, tl.uint16)))
    tl.store(out_ptr + 5, type_code(tl.rand(0, tl.arange(0, 4))))
    tl.store(out_ptr + 6, type_code(tl.randint(0, tl.arange(0, 4))))
    tl.store(out_ptr + 7, type_code(tl.histogram(tl.arange(0, 4), 4)))
    for k in range(3):
        tl.store(out_ptr + 8, type_code(k))


def _ones(dtype):
    return torch.ones(4, dtype=torch.int32).to(getattr(torch, dtype))


def _divisors(x):
    """Division and remainder need both integers signed or both not, and no booleans."""
    if x not in INTEGERS:
        return [t for t in NUMBERS if t != "bool"]
    return [t for t in NUMBERS if t not in INTEGERS or (t[0] == x[0] and t != "bool")]


INTEGERS = [t for t in NUMBERS if t.startswith(("int", "uint", "bool"))]


def _each(kernel, x, others, n_codes):
    return Case(
        f"{kernel.__name__}-{x}",
        kernel,
        (_ones(x), tuple(_ones(t) for t in others), out("int32", n_codes * len(others))),
        {"COUNT": len(others)},
        wrong_in_interpreter="it has no tuples of pointers",
    )


CASES = (
    *(
        _each(with_every_type, t, [u for u in NUMBERS if u != "bool"], 5)
        for t in NUMBERS
        if t != "bool"
    ),
    *(_each(divided_by_every_type, t, _divisors(t), 2) for t in NUMBERS if t != "bool"),
    *(
        _each(with_every_integer, t, [u for u in INTEGERS if u[0] == t[0]], 6)
        for t in INTEGERS
        if t != "bool"
    ),
    *(
        Case(
            f"block_and_number-{t}",
            block_and_number,
            (_ones(t), out("int32", 9)),
            wrong_in_interpreter="it has no bfloat16" if t == "bfloat16" else "",
        )
        for t in NUMBERS
    ),
    *(
        Case(f"divided_by_number-{t}", divided_by_number, (_ones(t), out("int32", 3)))
        for t in NUMBERS
        if t != "bool"
    ),
    *(
        Case(f"maximum_with_float-{t}", maximum_with_float, (_ones(t), out("int32", 2)))
        for t in NUMBERS
        if t != "bool"
    ),
    *(
        Case(f"large_numbers-{t}", large_numbers, (_ones(t), out("int32", 2)))
        for t in ("int32", "int64")
    ),
    Case(
        "arguments",
        arguments,
        (True, 3, 2**31, 2**63, 0.5, out("int32", 8)),
        wrong_in_interpreter="it refuses booleans",
    ),
    *(
        Case(f"reductions-{t}", reductions, (_ones(t), out("int32", 7)))
        for t in NUMBERS
        if t != "bool"
    ),
    *(
        Case(f"sums_of_a_type-{t}", sums_of_a_type, (_ones(t), out("int32", 3)))
        for t in ("int8", "int32", "float16", "bfloat16", "float32")
    ),
    *(
        Case(
            f"{kernel.__name__}-{n}",
            kernel,
            (_ones("int8"), n, out("int32", 1)),
            wrong_in_interpreter="it specialises nothing",
        )
        for kernel in (added_argument, added_variable)
        for n in (1, 2)
    ),
    Case(
        "what_the_language_makes",
        what_the_language_makes,
        (out("int32", 9),),
        wrong_in_interpreter="the index of a loop is a Python number",
    ),
)
