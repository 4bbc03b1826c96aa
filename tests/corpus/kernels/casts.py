"""Conversions between all types: rounding, overflow, truncation, and reinterpreting bits."""

import torch
import triton
import triton.language as tl

from tests.corpus.case import Case, out
from tests.corpus.inputs import floats, numbers, uniform

INTEGERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
FP8 = ("float8_e4m3fn", "float8_e5m2")
WRONG = "the interpreter truncates to bfloat16 and fp8, and has NumPy's rules for integers"


@triton.jit
def cast(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i).to(out_ptr.dtype.element_ty))


@triton.jit
def store_converts(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i))


@triton.jit
def round_toward_zero(x_ptr, half_ptr, bfloat_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(half_ptr + i, x.to(tl.float16, fp_downcast_rounding="rtz"))
    tl.store(bfloat_ptr + i, tl.cast(x, tl.bfloat16, fp_downcast_rounding="rtz"))


@triton.jit
def bitcast(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i).to(out_ptr.dtype.element_ty, bitcast=True))


@triton.jit
def there_and_back(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x.to(tl.int32).to(tl.float32))
    tl.store(out_ptr + N + i, x.to(tl.float16).to(tl.float32))
    tl.store(out_ptr + 2 * N + i, x.to(tl.bfloat16).to(tl.float32))
    tl.store(out_ptr + 3 * N + i, (x > 0).to(tl.float32))


@triton.jit
def truth(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i).to(tl.int1))


def _values(source, target):
    """What the conversion defines: NaN and infinity have no integer, nor have others out of range."""
    x = numbers(source, 32)
    if source in FLOATS and target in INTEGERS and target != "bool":
        limits = torch.iinfo(getattr(torch, target))
        inside = (x.double() > float(limits.min) - 1) & (x.double() < float(limits.max))
        x = torch.where(inside, x, torch.tensor(2.75, dtype=x.dtype))
    return x


def _fp8(source, target):
    """All bit patterns; but to bfloat16, Triton takes infinity and NaN of e5m2 for large numbers."""
    x = numbers(source, 256)
    if (source, target) == ("float8_e5m2", "bfloat16"):
        x = torch.where(x.float().isfinite(), x.float(), torch.tensor(1.0)).to(x.dtype)
    return x


CASES = (
    *(
        Case(
            f"cast-{a}-{b}",
            cast,
            (_values(a, b), out(b, 32)),
            {"N": 32},
            wrong_in_interpreter=WRONG,
        )
        for a in (*INTEGERS, *FLOATS)
        for b in (*INTEGERS, *FLOATS)
        if b not in {a, "bool"}
    ),
    *(
        Case(
            f"cast-{a}-{b}",
            cast,
            (floats(a, 64), out(b, 64)),
            {"N": 64},
            wrong_in_interpreter=WRONG,
        )
        for a, b in (*((f, t) for f in ("float16", "bfloat16", "float32") for t in FP8),)
    ),
    *(
        Case(
            f"cast-{a}-{b}",
            cast,
            (_fp8(a, b), out(b, 256)),
            {"N": 256},
            wrong_in_interpreter=WRONG,
        )
        for a in FP8
        for b in ("float16", "bfloat16", "float32")
    ),
    *(
        Case(
            f"store_converts-{a}-{b}",
            store_converts,
            (_values(a, b), out(b, 32)),
            {"N": 32},
            wrong_in_interpreter=WRONG,
        )
        for a, b in (
            ("float32", "float16"),
            ("float32", "bfloat16"),
            ("float32", "int32"),
            ("int32", "float16"),
            ("int64", "int8"),
            ("int32", "uint8"),
        )
    ),
    Case(
        "round_toward_zero",
        round_toward_zero,
        (floats("float32", 64), out("float16", 64), out("bfloat16", 64)),
        {"N": 64},
        wrong_in_interpreter=WRONG,
    ),
    *(
        Case(f"bitcast-{a}-{b}", bitcast, (numbers(a), out(b, 64)), {"N": 64})
        for a, b in (
            ("float32", "int32"),
            ("float32", "uint32"),
            ("float16", "int16"),
            ("bfloat16", "int16"),
            ("float64", "int64"),
            ("int32", "float32"),
            ("int16", "float16"),
            ("uint32", "int32"),
            ("uint8", "int8"),
        )
    ),
    Case(
        "there_and_back",
        there_and_back,
        (uniform("float32", -70000.0, 70000.0), out("float32", 256)),
        {"N": 64},
        wrong_in_interpreter=WRONG,
    ),
    *(
        Case(f"truth-{t}", truth, (numbers(t), out("bool", 64)), {"N": 64})
        for t in ("int8", "int32", "int64", "float16", "float32", "float64")
    ),
)
