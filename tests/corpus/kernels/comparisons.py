"""Comparisons, logic on booleans, and choosing by them."""

import triton
import triton.language as tl

from tests.corpus.case import Case, out
from tests.corpus.inputs import numbers, pairs

NUMBERS = (
    *("int8", "int32", "int64", "uint8", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
)
NO_BFLOAT16 = "the interpreter compares the bits of bfloat16 as integers"


@triton.jit
def compare(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    bits = (x < y).to(tl.int32)
    bits += (x <= y).to(tl.int32) * 2
    bits += (x > y).to(tl.int32) * 4
    bits += (x >= y).to(tl.int32) * 8
    bits += (x == y).to(tl.int32) * 16
    bits += (x != y).to(tl.int32) * 32
    tl.store(out_ptr + i, bits)


@triton.jit
def compare_with_numbers(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    bits = (x < 1).to(tl.int32) + (0 <= x).to(tl.int32) * 2 + (x != 1).to(tl.int32) * 4
    tl.store(out_ptr + i, bits)


@triton.jit
def logic(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    small, both = x < 1, (x < 1) & (y > 0)
    tl.store(out_ptr + i, small | (y < 0))
    tl.store(out_ptr + N + i, both ^ small)
    tl.store(out_ptr + 2 * N + i, ~both)
    tl.store(out_ptr + 3 * N + i, (small and y > 0) or x == y)


@triton.jit
def choose(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(out_ptr + i, tl.where(x > y, x, y))
    tl.store(out_ptr + N + i, tl.where(x == x, x, 0))
    tl.store(out_ptr + 2 * N + i, tl.where(i % 2 == 0, 1, y))


@triton.jit
def choose_with_broadcast(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    row = tl.load(x_ptr + i)[None, :]
    column = tl.load(x_ptr + i)[:, None]
    at = i[:, None] * N + i[None, :]
    tl.store(out_ptr + at, tl.where(i[:, None] >= i[None, :], row, column))


@triton.jit
def mixed_signs(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    # int32 against uint32 compares as unsigned
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(out_ptr + i, (x < y).to(tl.int32) + (x == y).to(tl.int32) * 2)


CASES = (
    *(
        Case(
            f"compare-{t}",
            compare,
            (*pairs(t), out("int32", 256)),
            {"N": 256},
            wrong_in_interpreter=NO_BFLOAT16 if t == "bfloat16" else "",
        )
        for t in NUMBERS
    ),
    *(
        Case(
            f"compare_with_numbers-{t}",
            compare_with_numbers,
            (numbers(t), out("int32", 64)),
            {"N": 64},
            wrong_in_interpreter=NO_BFLOAT16 if t == "bfloat16" else "",
        )
        for t in NUMBERS
    ),
    *(
        Case(
            f"logic-{t}",
            logic,
            (*pairs(t, 8), out("bool", 256)),
            {"N": 64},
            wrong_in_interpreter="it has Python's and, or",
        )
        for t in ("int32", "float32")
    ),
    *(
        Case(
            f"choose-{t}",
            choose,
            (*pairs(t, 8), out(t, 192)),
            {"N": 64},
            wrong_in_interpreter=NO_BFLOAT16 if t == "bfloat16" else "",
        )
        for t in ("int8", "int32", "float16", "bfloat16", "float32")
    ),
    Case(
        "choose_with_broadcast",
        choose_with_broadcast,
        (numbers("float32", 8), out("float32", 64)),
        {"N": 8},
    ),
    Case(
        "mixed_signs",
        mixed_signs,
        (pairs("int32", 8)[0], pairs("uint32", 8)[1], out("int32", 64)),
        {"N": 64},
    ),
)
