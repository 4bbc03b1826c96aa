"""Arithmetic of blocks and scalars: rounding, wrap-around, and NaN in min and max."""

import triton
import triton.language as tl

from tests.corpus.case import Case, out
from tests.corpus.inputs import floats, integers, numbers, pairs

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
NO_BFLOAT16 = "the interpreter computes with the bits of bfloat16 as integers"


def interpreter(dtype):
    return NO_BFLOAT16 if dtype == "bfloat16" else ""


@triton.jit
def add_subtract_multiply(x_ptr, y_ptr, sum_ptr, difference_ptr, product_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(sum_ptr + i, x + y)
    tl.store(difference_ptr + i, x - y)
    tl.store(product_ptr + i, x * y)


@triton.jit
def negative_and_absolute(x_ptr, negative_ptr, absolute_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(negative_ptr + i, -x)
    tl.store(absolute_ptr + i, tl.abs(x))


@triton.jit
def bitwise(x_ptr, y_ptr, and_ptr, or_ptr, xor_ptr, not_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(and_ptr + i, x & y)
    tl.store(or_ptr + i, x | y)
    tl.store(xor_ptr + i, x ^ y)
    tl.store(not_ptr + i, ~x)


@triton.jit
def shift(x_ptr, y_ptr, left_ptr, right_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(left_ptr + i, x << y)
    tl.store(right_ptr + i, x >> y)


@triton.jit
def fused_multiply_add(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    out = tl.fma(tl.load(x_ptr + i), tl.load(y_ptr + i), tl.load(z_ptr + i))
    tl.store(out_ptr + i, out)


@triton.jit
def smaller_and_larger(x_ptr, y_ptr, min_ptr, max_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(min_ptr + i, tl.minimum(x, y))
    tl.store(max_ptr + i, tl.maximum(x, y))


@triton.jit
def smaller_and_larger_with_nan(x_ptr, y_ptr, min_ptr, max_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(min_ptr + i, tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL))
    tl.store(max_ptr + i, tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL))


@triton.jit
def clamp(x_ptr, low, high, out_ptr, nan_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, tl.clamp(x, low, high))
    tl.store(nan_ptr + i, tl.clamp(x, low, high, propagate_nan=tl.PropagateNan.ALL))


@triton.jit
def high_half_of_product(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.umulhi(tl.load(x_ptr + i), tl.load(y_ptr + i)))


@triton.jit
def python_numbers(x_ptr, out_ptr, N: tl.constexpr):
    # a number takes the block's type, and is rounded to it first
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x * 0.1)
    tl.store(out_ptr + N + i, x + 3)
    tl.store(out_ptr + 2 * N + i, 1 - x)
    tl.store(out_ptr + 3 * N + i, 1e-3 * x)


@triton.jit
def runtime_scalars(x_ptr, scale, count, out_ptr, N: tl.constexpr):
    # a float argument is float32, whatever the block is
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x * scale)
    tl.store(out_ptr + N + i, x + count)
    tl.store(out_ptr + 2 * N + i, count * scale)


def _shifts(dtype):
    x = integers(dtype, 64)
    bits = x.element_size() * 8
    return x, integers(dtype, 64, 2, low=0, high=bits - 1)


CASES = (
    *(
        Case(
            f"add_subtract_multiply-{t}",
            add_subtract_multiply,
            (*pairs(t), out(t, 256), out(t, 256), out(t, 256)),
            {"N": 256},
            wrong_in_interpreter=interpreter(t),
        )
        for t in (*INTEGERS, *FLOATS)
    ),
    *(
        Case(
            f"negative_and_absolute-{t}",
            negative_and_absolute,
            (numbers(t), out(t, 64), out(t, 64)),
            {"N": 64},
            wrong_in_interpreter=interpreter(t),
        )
        for t in (*INTEGERS, *FLOATS)
    ),
    *(
        Case(
            f"bitwise-{t}",
            bitwise,
            (*pairs(t), *(out(t, 256) for _ in range(4))),
            {"N": 256},
            wrong_in_interpreter="it inverts with signs" if t[0] == "u" else "",
        )
        for t in (*INTEGERS, "bool")
    ),
    *(
        Case(f"shift-{t}", shift, (*_shifts(t), out(t, 64), out(t, 64)), {"N": 64})
        for t in INTEGERS
    ),
    *(
        Case(
            f"fused_multiply_add-{t}",
            fused_multiply_add,
            (floats(t, 64), floats(t, 64, 2, special=False), floats(t, 64, 3), out(t, 64)),
            {"N": 64},
            wrong_in_interpreter="it rounds the product" if t != "bfloat16" else NO_BFLOAT16,
        )
        for t in FLOATS
    ),
    *(
        Case(
            f"{kernel.__name__}-{t}",
            kernel,
            (*pairs(t), out(to, 256), out(to, 256)),
            {"N": 256},
            wrong_in_interpreter="NaN, and the sign of a zero",
        )
        for kernel in (smaller_and_larger, smaller_and_larger_with_nan)
        for t, to in (
            ("float16", "float16"),
            ("bfloat16", "float32"),
            ("float32", "float32"),
            ("float64", "float64"),
        )
    ),
    *(
        Case(
            f"smaller_and_larger-{t}",
            smaller_and_larger,
            (*pairs(t), out(t, 256), out(t, 256)),
            {"N": 256},
        )
        for t in ("int32", "int64", "uint32", "uint64")
    ),
    *(
        Case(
            f"clamp-{t}",
            clamp,
            (floats(t), -1.5, 2.25, out("float32", 64), out("float32", 64)),
            {"N": 64},
            wrong_in_interpreter="NaN",
        )
        for t in ("float16", "float32")
    ),
    *(
        Case(
            f"high_half_of_product-{t}",
            high_half_of_product,
            (*pairs(t), out(t, 256)),
            {"N": 256},
            wrong_in_interpreter="" if t[0] == "u" else "it multiplies with signs",
        )
        for t in ("int32", "uint32", "int64", "uint64")
    ),
    *(
        Case(
            f"python_numbers-{t}",
            python_numbers,
            (floats(t), out(t, 256)),
            {"N": 64},
            wrong_in_interpreter=interpreter(t),
        )
        for t in FLOATS
    ),
    *(
        Case(
            f"runtime_scalars-{t}",
            runtime_scalars,
            (numbers(t), 0.1, 7, out(to, 192)),
            {"N": 64},
            wrong_in_interpreter="it keeps float arguments in float64",
        )
        for t, to in (
            ("float16", "float32"),
            ("bfloat16", "float32"),
            ("float32", "float32"),
            ("float64", "float64"),
            ("int32", "float32"),
        )
    ),
)
