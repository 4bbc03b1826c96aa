"""Which type a number has, and which type an operation on two values computes in."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from grader.simulator.dtypes import (
    bfloat16,
    dtype,
    float16,
    float32,
    float64,
    int1,
    int32,
    int64,
    uint32,
    uint64,
)

_MIN_NORMAL, _MAX_FLOAT32 = 2.0**-126, (2 - 2.0**-23) * 2.0**127


@functools.lru_cache(maxsize=1024, typed=True)
def scalar_type(x: Any) -> dtype:
    """The type Triton gives a Python number."""
    if isinstance(x, bool | np.bool_):
        return int1
    if isinstance(x, int | np.integer):
        for t in (int32, uint32, int64, uint64):
            limits = np.iinfo(t.storage)
            if limits.min <= x <= limits.max:
                return t
        raise ValueError(f"the integer {x} fits in no integer type of Triton")
    size = abs(float(x))
    fits = size == 0 or not math.isfinite(size) or _MIN_NORMAL <= size <= _MAX_FLOAT32
    return float32 if fits else float64


def argument_type(x: Any) -> dtype:
    """The type of a number given at launch, which is not that of a number in a kernel."""
    if isinstance(x, float):
        return float32
    if isinstance(x, bool | np.bool_):
        return int1
    for t in (int32, int64, uint64):
        if t.lowest <= x <= t.highest:
            return t
    raise ValueError(f"the integer {x} fits in no integer type of Triton")


@functools.lru_cache(maxsize=1024)
def promote(a: dtype, a_is_number: bool, b: dtype, b_is_number: bool, division: bool) -> dtype:
    """The type an operation on a and b computes in.

    The type of a Python number joins the other's type when its kind (bool, int, float) is not
    higher. ``/`` and ``%`` have no 16-bit form on the GPU, so a division computes in float32.

    Source: triton/language/semantic.py, computation_type_impl.
    """
    if a_is_number != b_is_number:
        number, tensor = (a, b) if a_is_number else (b, a)
        if number.kind <= tensor.kind:
            return float32 if division and tensor in {float16, bfloat16} else tensor
    if a.is_floating() or b.is_floating():
        return _promote_floats(a, b, division)
    return _promote_integers(a, b, division)


def _promote_floats(a: dtype, b: dtype, division: bool) -> dtype:
    for t in (float64, float32):
        if t in {a, b}:
            return t
    if float16 in {a, b}:
        return float32 if division else float16
    if a is b is bfloat16:
        return float32 if division else bfloat16
    if bfloat16 in {a, b}:
        return float32
    if a.is_fp8() and b.is_fp8():
        return a if a is b else float16
    raise TypeError(f"unexpected type {a} and {b}")


def _promote_integers(a: dtype, b: dtype, division: bool) -> dtype:
    if division and a.signed != b.signed:
        raise TypeError(
            f"cannot use /, // or % with {a} and {b}: one is signed, the other not; cast one"
        )
    if a.signed == b.signed:
        return a if a.primitive_bitwidth > b.primitive_bitwidth else b
    unsigned, signed = (b, a) if a.signed else (a, b)
    return unsigned if unsigned.primitive_bitwidth >= signed.primitive_bitwidth else signed
