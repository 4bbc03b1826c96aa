"""Elementwise functions of tl and tl.math, and tl.where.

Errors of the GPU's own exp, sin and so on are not imitated; that it takes subnormal float32 as zero in
some of them is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from grader.simulator import extremes, modes, reductions
from grader.simulator.constants import plain
from grader.simulator.creation import to_bool
from grader.simulator.dtypes import Array, float32, float64, int1
from grader.simulator.errors import UnsupportedError, refuse
from grader.simulator.fused import fused_multiply_add
from grader.simulator.operators import (
    add,
    arithmetic,
    divide,
    floor_divide,
    multiply,
    operands,
    remainder,
    subtract,
)
from grader.simulator.shapes import expand_dims
from grader.simulator.values import Value, align, member, value_of

# the names that kernels know as tl.math.<name>, and tl.<name>
MATH = (
    *("abs", "ceil", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma", "log", "log2"),
    *("rsqrt", "sin", "sqrt", "sqrt_rn", "umulhi"),
)
# the names that kernels know as tl.<name>
LANGUAGE = (
    *MATH,
    *("cdiv", "mul", "sigmoid", "softmax", "swizzle2d", "where"),
)

_SMALLEST_NORMAL = np.finfo(np.float32).tiny


def by_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Array], Array]:
    """A function of torch for arrays."""

    def apply(x: Array) -> Array:
        # no student mode sees this
        with modes.bare():
            out: Array = function(torch.from_numpy(np.ascontiguousarray(x))).numpy()
        return out

    return apply


def flushed(x: Array) -> Array:
    """Subnormal float32 as zero of the same sign, as instructions ending in .ftz take them."""
    if x.dtype != np.float32:
        return x
    subnormal = (np.abs(x) < _SMALLEST_NORMAL) & (x != 0)
    return np.where(subnormal, np.copysign(np.float32(0), x), x) if subnormal.any() else x


def flushing(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function that takes and gives subnormal float32 as zero."""
    return lambda x: flushed(function(flushed(x)))


def _sigmoid(x: Array) -> Array:
    out: Array = 1 / (1 + np.exp(-x))
    return out


# 32- and 64-bit floats only, as on the GPU
UNARY: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": flushing(np.sin),
    "cos": flushing(np.cos),
    "sqrt": flushing(np.sqrt),
    "rsqrt": flushing(lambda x: 1 / np.sqrt(x)),
    "erf": flushing(by_torch(torch.erf)),
    "floor": flushing(np.floor),
    "ceil": flushing(np.ceil),
}


def unary(name: str, function: Callable[[Array], Array]) -> Callable[..., Value]:
    """A function of float32 or float64, under the name the student wrote."""

    def apply(x: Any) -> Value:
        given = _wide_float(name, x)
        return Value(function(given.data).astype(given.dtype.compute, copy=False), given.dtype)

    apply.__name__ = name
    return apply


def _members() -> Iterator[Callable[..., Value]]:
    for name, function in UNARY.items():
        yield member(unary(name, function))


exp, exp2, log, log2, sin, cos, sqrt, rsqrt, erf, floor, ceil = _members()


@member
def sigmoid(x: Any) -> Value:
    """``1 / (1 + exp(-x))``."""
    given = _wide_float("sigmoid", x)
    return Value(_sigmoid(given.data), given.dtype)


@member
def sqrt_rn(x: Any) -> Value:
    """Square root of float32, rounded to nearest."""
    given = _only_float32("sqrt_rn", x)
    return Value(np.sqrt(given.data), float32)


@member
def abs(x: Any) -> Value:  # noqa: A001  tl.abs
    """Absolute value of any number."""
    given = value_of(x)
    return Value(np.abs(given.data), given.dtype)


@member
def softmax(x: Any, dim: Any = None, keep_dims: Any = False, ieee_rounding: Any = False) -> Value:
    """Softmax along an axis, by default the first."""
    axis = plain(dim) or 0
    numerator = exp(subtract(x, expand_dims(reductions.max(x, axis), axis)))
    return divide(numerator, expand_dims(reductions.sum(numerator, axis), axis))


def fma(x: Any, y: Any, z: Any) -> Value:
    """``x * y + z``, rounded once."""
    if not value_of(x).dtype.is_floating():
        refuse(f"tl.fma takes floats, not {value_of(x).dtype}")
    a, b, t = operands(x, y)
    c, _, of_all = operands(z, Value(a, t))
    if of_all is not t:
        refuse(f"tl.fma: the product is {t} and z {value_of(z).dtype}; cast one with .to()")
    a, b, c = align(a, b, c)
    return Value(fused_multiply_add(a, b, c, t), t)


def mul(x: Any, y: Any, sanitize_overflow: Any = True) -> Value:
    """``x * y``."""
    return multiply(x, y)


def fdiv(x: Any, y: Any, ieee_rounding: Any = False) -> Value:
    """``x / y`` of floats."""
    for given in (x, y):
        if not value_of(given).dtype.is_floating():
            refuse(f"tl.fdiv takes floats, not {value_of(given).dtype}; use / or //")
    return divide(x, y)


def div_rn(x: Any, y: Any) -> Value:
    """``x / y`` of float32, rounded to nearest."""
    return divide(_only_float32("div_rn", x), y)


def umulhi(x: Any, y: Any) -> Value:
    """The high half of a product of integers without sign, of 32 or 64 bits."""
    a, b, t = operands(x, y)
    if not t.is_int() or t.primitive_bitwidth < 32:  # noqa: PLR2004  bits
        refuse(f"tl.umulhi takes integers of 32 or 64 bits, not {t}")
    bits = np.dtype(f"u{t.itemsize}")
    high = (_high_32 if t.itemsize == 4 else _high_64)(a.view(bits), b.view(bits))  # noqa: PLR2004
    return Value(high.astype(bits).view(t.storage), t)


_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


def _high_32(a: Array, b: Array) -> Array:
    return (a.astype(np.uint64) * b.astype(np.uint64)) >> _HALF


def _high_64(a: Array, b: Array) -> Array:
    """By schoolbook multiplication of 32-bit halves."""
    a_low, a_high, b_low, b_high = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a_high * b_low + ((a_low * b_low) >> _HALF)
    carry = (middle & _LOW) + a_low * b_high
    high: Array = a_high * b_high + (middle >> _HALF) + (carry >> _HALF)
    return high


def binary(name: str, function: Callable[[Array, Array], Array]) -> Callable[[Any, Any], Value]:
    """A function of two float32 or float64, under the name the student wrote."""

    def apply(x: Any, y: Any) -> Value:
        return arithmetic(function, _wide_float(name, x), y)

    return apply


def predicate(name: str, function: Callable[[Array], Array]) -> Callable[[Any], Value]:
    """libdevice.isnan and its kin, which answer int1."""
    return lambda x: Value(function(_wide_float(name, x).data), int1)


def _wide_float(name: str, x: Any) -> Value:
    given = value_of(x)
    if given.dtype is not float32 and given.dtype is not float64:
        refuse(
            f"tl.{name}: expected dtype fp32 or fp64 but got {given.dtype}; "
            "cast with .to(tl.float32)"
        )
    return given


def _only_float32(name: str, x: Any) -> Value:
    given = value_of(x)
    if given.dtype is not float32:
        refuse(f"tl.{name}: expected dtype fp32 but got {given.dtype}; cast with .to(tl.float32)")
    return given


@member
def cdiv(x: Any, div: Any) -> Any:
    """``x / div`` rounded up; in Python for constants."""
    a, b = plain(x), plain(div)
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return floor_divide(subtract(add(a, b), 1), b)
    return -(-a // b)


def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> tuple[Any, Any]:
    """Row-major position to one within groups of ``size_g`` rows, column-major in each."""
    flat = add(mul(i, size_j), j)
    per_group = mul(size_g, size_j)
    first = mul(floor_divide(flat, per_group), size_g)
    rows = extremes.minimum(subtract(size_i, first), size_g)
    within = remainder(flat, per_group)
    return add(first, remainder(within, rows)), floor_divide(within, rows)


def where(condition: Any, x: Any, y: Any) -> Value:
    """``x`` where the condition holds, ``y`` elsewhere; both are computed."""
    c = to_bool(condition)
    if any(isinstance(v, Value) and v.argument is not None for v in (x, y)):
        if x.argument is not y.argument:
            raise UnsupportedError(
                "tl.where between pointers into different tensors: load both and choose values"
            )
        return Value(np.where(*align(c.data, x.data, y.data)), x.dtype, x.argument)
    a, b, t = operands(x, y)
    return Value(np.where(*align(c.data, a, b)), t)
