"""``x * y + z`` rounded once, as the fma instruction does; NumPy has no such function.

Source: Boldo and Melquiond 2008, "Emulation of a FMA and correctly rounded sums: proved algorithms
using rounding to odd".
"""

from __future__ import annotations

import numpy as np

from grader.simulator import dtypes
from grader.simulator.dtypes import Array, dtype

_SPLITTER = np.float64(2**27 + 1)


def fused_multiply_add(x: Array, y: Array, z: Array, t: dtype) -> Array:
    """``x * y + z`` of arrays in the type that ``t`` computes in, rounded to ``t`` once.

    Exact but for float64 products near overflow or underflow, which round twice.
    """
    if dtypes.is_lifted():
        lifted: Array = x * y + z
        return lifted
    if x.dtype == np.float64:
        return _of_float64(x, y, z)
    # a product of float32 is exact in float64
    total = _add_to_odd(x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64))
    return t.round(_float32_to_odd(total)) if t.rounds else total.astype(np.float32)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its error (Knuth)."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def _add_to_odd(a: Array, b: Array) -> Array:
    """``a + b``; where inexact, the neighbour whose last bit is 1. Rounding it again is then safe."""
    total, error = _two_sum(a, b)
    inexact = (error != 0) & np.isfinite(error) & np.isfinite(total)
    even = (total.view(np.int64) & 1) == 0
    towards = np.where(error > 0, np.inf, -np.inf)
    return np.where(inexact & even, np.nextafter(total, towards), total)


def _float32_to_odd(x: Array) -> Array:
    """Float64 to float32, to odd where inexact."""
    near = x.astype(np.float32)
    inexact = (near != x) & np.isfinite(near)
    even = (near.view(np.int32) & 1) == 0
    towards = np.where(x > near, np.float32(np.inf), np.float32(-np.inf))
    return np.where(inexact & even, np.nextafter(near, towards), near)


def _of_float64(x: Array, y: Array, z: Array) -> Array:
    high, low = _two_product(x, y)
    rest, rest_error = _two_sum(z, low)
    total, error = _two_sum(high, rest)
    exact = total + _add_to_odd(rest_error, error)
    plain: Array = x * y + z
    # of an exact zero, only the plain sum has the sign
    return np.where(np.isfinite(exact) & (exact != 0), exact, plain)


def _two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """The rounded product and its error (Dekker)."""
    product = x * y
    x_high, x_low = _halves(x)
    y_high, y_low = _halves(y)
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return product, error


def _halves(x: Array) -> tuple[Array, Array]:
    scaled = _SPLITTER * x
    high = scaled - (scaled - x)
    return high, x - high
