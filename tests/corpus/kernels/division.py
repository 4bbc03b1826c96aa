"""Division: what is rounded, what is truncated, and the remainder."""

import triton
import triton.language as tl

from tests.corpus.case import Case, Within, out
from tests.corpus.inputs import floats, integers, pairs, replaced

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
FULL_DIVISION = Within("div.full.f32 is right to 2 units in the last place (PTX ISA)", ulps=2)
NO_BFLOAT16 = "the interpreter computes with the bits of bfloat16 as integers"


@triton.jit
def divide(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i) / tl.load(y_ptr + i))


@triton.jit
def divide_with_ieee_rounding(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.math.div_rn(tl.load(x_ptr + i), tl.load(y_ptr + i)))


@triton.jit
def divide_floats(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.fdiv(tl.load(x_ptr + i), tl.load(y_ptr + i), ieee_rounding=True))


@triton.jit
def floor_divide_and_remainder(x_ptr, y_ptr, quotient_ptr, rest_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(quotient_ptr + i, x // y)
    tl.store(rest_ptr + i, x % y)


@triton.jit
def float_remainder(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i) % tl.load(y_ptr + i))


@triton.jit
def round_up_division(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.cdiv(tl.load(x_ptr + i), tl.load(y_ptr + i)))


@triton.jit
def swizzle(i_ptr, j_ptr, out_i_ptr, out_j_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    i, j = tl.swizzle2d(tl.load(i_ptr + at), tl.load(j_ptr + at), 5, 7, 2)
    tl.store(out_i_ptr + at, i)
    tl.store(out_j_ptr + at, j)


def _nonzero(dtype):
    """Pairs whose quotient C defines: no division by zero, and not the smallest by -1."""
    x, y = pairs(dtype)
    return x, replaced(y, {0: 5, -1: -4})


CASES = (
    *(
        Case(
            f"divide-{t}",
            divide,
            (*pairs(t), out("float64" if t == "float64" else "float32", 256)),
            {"N": 256},
            within=None if t == "float64" else FULL_DIVISION,
            wrong_in_interpreter=NO_BFLOAT16 if t == "bfloat16" else "",
        )
        for t in (*FLOATS, "int8", "int32", "int64", "uint8", "uint32")
    ),
    Case(
        "divide_with_ieee_rounding",
        divide_with_ieee_rounding,
        (*pairs("float32"), out("float32", 256)),
        {"N": 256},
    ),
    # Triton does not heed ieee_rounding
    Case(
        "divide_floats",
        divide_floats,
        (*pairs("float32"), out("float32", 256)),
        {"N": 256},
        within=FULL_DIVISION,
    ),
    *(
        Case(
            f"floor_divide_and_remainder-{t}",
            floor_divide_and_remainder,
            (*_nonzero(t), out(t, 256), out(t, 256)),
            {"N": 256},
        )
        for t in INTEGERS
    ),
    *(
        Case(
            f"float_remainder-{t}",
            float_remainder,
            (floats(t, 64), floats(t, 64, 2, special=False), out(to, 64)),
            {"N": 64},
            wrong_in_interpreter="it has the exact remainder",
        )
        for t, to in (
            ("float16", "float32"),
            ("bfloat16", "float32"),
            ("float32", "float32"),
            ("float64", "float64"),
        )
    ),
    *(
        Case(
            f"round_up_division-{t}",
            round_up_division,
            (
                integers(t, 64, low=0, high=100),
                integers(t, 64, 2, low=1, high=9),
                out(t, 64),
            ),
            {"N": 64},
        )
        for t in ("int32", "int64")
    ),
    Case(
        "swizzle",
        swizzle,
        (
            integers("int32", 64, 1, low=0, high=4),
            integers("int32", 64, 2, low=0, high=6),
            out("int32", 64),
            out("int32", 64),
        ),
        {"N": 64},
    ),
)
