"""Elementwise functions, tl.where and tl.dot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from grader.simulator import dtypes, reductions
from grader.simulator.constants import plain
from grader.simulator.creation import cast, expand_dims, to_bool
from grader.simulator.dtypes import Array, bfloat16, dtype, float16, float32, float64, int1, int32
from grader.simulator.errors import UnsupportedError, refuse
from grader.simulator.operators import (
    add,
    arithmetic,
    divide,
    floor_divide,
    multiply,
    operands,
    remainder,
    result,
    subtract,
)
from grader.simulator.values import Value, align, member, value_of


def _by_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Array], Array]:
    def apply(x: Array) -> Array:
        with torch._C.DisableTorchFunction():  # noqa: SLF001 - no student mode sees this
            out: Array = function(torch.from_numpy(np.ascontiguousarray(x))).numpy()
        return out

    return apply


def _sigmoid(x: Array) -> Array:
    out: Array = 1 / (1 + np.exp(-x))
    return out


# 32- and 64-bit floats only, as on the GPU
UNARY: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "sqrt": np.sqrt,
    "sqrt_rn": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": _by_torch(torch.erf),
    "floor": np.floor,
    "ceil": np.ceil,
    "sigmoid": _sigmoid,
}
LIBDEVICE: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "log10": np.log10,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "rint": np.rint,
    "nearbyint": np.rint,
    "round": lambda x: np.trunc(x + np.copysign(x.dtype.type(0.5), x)),
    "trunc": np.trunc,
    "erfc": _by_torch(torch.erfc),
    "erfinv": _by_torch(torch.erfinv),
    "lgamma": _by_torch(torch.lgamma),
    "fast_expf": np.exp,
    "fast_logf": np.log,
    "fast_sinf": np.sin,
    "fast_cosf": np.cos,
    "fast_tanf": np.tan,
    "rcp_rn": np.reciprocal,
}


def unary(name: str, function: Callable[[Array], Array]) -> Callable[..., Value]:
    """A function of float32 or float64, under the name the student wrote."""

    def apply(x: Any, *_: Any, **__: Any) -> Value:
        given = _wide_float(name, x)
        return Value(function(given.data).astype(given.dtype.compute, copy=False), given.dtype)

    apply.__name__ = name
    return apply


exp = unary("exp", np.exp)


@member
def abs(x: Any) -> Value:  # noqa: A001 - tl.abs
    """Absolute value of any number."""
    given = value_of(x)
    return Value(np.abs(given.data), given.dtype)


@member
def softmax(x: Any, dim: Any = None, keep_dims: Any = False, ieee_rounding: Any = False) -> Value:
    """Softmax along an axis, by default the first."""
    axis = plain(dim) or 0
    numerator = exp(subtract(x, expand_dims(reductions.max(x, axis), axis)))
    return divide(numerator, expand_dims(reductions.sum(numerator, axis), axis))


def _comparable(x: Any) -> Value:
    """As tl.maximum takes it: numbers are float32 or int32 values, bfloat16 becomes float32."""
    value = value_of(x)
    return cast(value, float32) if value.dtype is bfloat16 else value


def maximum(x: Any, y: Any, propagate_nan: Any = None) -> Value:
    """The larger; a NaN loses unless ``propagate_nan``."""
    larger = np.maximum if _propagates(propagate_nan) else np.fmax
    return arithmetic(larger, _comparable(x), _comparable(y))


def minimum(x: Any, y: Any, propagate_nan: Any = None) -> Value:
    """The smaller; a NaN loses unless ``propagate_nan``."""
    smaller = np.minimum if _propagates(propagate_nan) else np.fmin
    return arithmetic(smaller, _comparable(x), _comparable(y))


class PropagateNan:
    """tl.PropagateNan."""

    ALL = "all"
    NONE = None


def _propagates(propagate_nan: Any) -> bool:
    return bool(plain(propagate_nan) == PropagateNan.ALL)


def clamp(x: Any, min: Any, max: Any, propagate_nan: Any = None) -> Value:  # noqa: A002
    """``x`` held between two bounds."""
    return minimum(maximum(x, min, propagate_nan), max, propagate_nan)


def fma(x: Any, y: Any, z: Any) -> Value:
    """``x * y + z``, rounded once for 16-bit floats, twice otherwise."""
    if not value_of(x).dtype.is_floating():
        refuse(f"tl.fma takes floats, not {value_of(x).dtype}")
    return add(multiply(x, y), z)


def mul(x: Any, y: Any) -> Value:
    """``x * y``."""
    return multiply(x, y)


def fdiv(x: Any, y: Any, ieee_rounding: Any = False) -> Value:
    """``x / y`` of floats."""
    return divide(x, y)


def umulhi(x: Any, y: Any) -> Value:
    """The high 32 bits of a 32-bit product."""
    a, b, t = operands(x, y)
    high = (a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(32)
    return Value(high.astype(t.storage), t)


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


@member
def cdiv(x: Any, div: Any) -> Any:
    """``x / div`` rounded up; in Python for constants."""
    a, b = plain(x), plain(div)
    if isinstance(a, Value) or isinstance(b, Value):
        return floor_divide(subtract(add(a, b), 1), b)
    return -(-a // b)


def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> tuple[Any, Any]:
    """Row-major position to one within groups of ``size_g`` rows, column-major in each."""
    flat = add(mul(i, size_j), j)
    per_group = mul(size_g, size_j)
    first = mul(floor_divide(flat, per_group), size_g)
    rows = minimum(subtract(size_i, first), size_g)
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


class DotDefaults:
    """What tl.dot does with float32 operands when the kernel does not say."""

    input_precision = "tf32"


_MIN_K = 16


def dot(
    input: Any,  # noqa: A002 - Triton's keyword
    other: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = float32,
) -> Value:
    """Matrix product of (..., M, K) and (..., K, N), accumulated in float32 (int32, float64).

    float32 operands are cut to TF32 unless ``input_precision`` is "ieee" or "tf32x3".
    """
    a, b = value_of(input), value_of(other)
    _check_dot(a, b)
    x, y = a.data, b.data
    if a.dtype.is_int():
        product, t = _product(x.astype(np.float64), y.astype(np.float64)).astype(np.int32), int32
    else:
        if a.dtype is float32 and _precision(input_precision, allow_tf32) == "tf32":
            x, y = cut_to_tf32(x), cut_to_tf32(y)
        t = float64 if a.dtype is float64 else plain(out_dtype)
        if t not in {float16, bfloat16, float32, float64}:
            refuse(f"out_dtype of tl.dot is a float type, not {t}")
        product = _product(x, y)
        product = t.round(product) if t.rounds else product
    if plain(acc) is None:
        return Value(product, t)
    before = value_of(acc)
    if before.shape != product.shape[1:]:
        refuse(f"tl.dot: acc has shape {before.shape}, the product {product.shape[1:]}")
    if before.dtype is not t:
        refuse(f"tl.dot: acc is {before.dtype}, the product {t}; they must be the same")
    return result(before.data + product, t)


def _check_dot(a: Value, b: Value) -> None:
    if not isinstance(a.dtype, dtype) or not isinstance(b.dtype, dtype):
        refuse("tl.dot takes numbers, not pointers: load the tiles first")
    if a.dtype is not b.dtype and not (a.dtype.is_fp8() and b.dtype.is_fp8()):
        refuse(
            f"tl.dot: both operands must have the same dtype, got {a.dtype} and {b.dtype}; "
            "cast one with .to()"
        )
    rank = len(a.shape)
    if rank != len(b.shape) or rank not in {2, 3} or a.shape[-1] != b.shape[-2]:
        refuse(f"tl.dot: shapes {a.shape} and {b.shape} do not multiply")
    if a.dtype.is_int() and a.dtype.itemsize != 1:
        refuse(f"tl.dot multiplies floats and 8-bit integers, not {a.dtype}")
    least = 2 * _MIN_K if a.dtype.itemsize == 1 else _MIN_K
    if a.shape[-1] < least and a.dtype is not float64:
        refuse(
            f"tl.dot: shapes {a.shape} and {b.shape}: the inner axis K must be at least {least}; "
            "use a larger block and mask the rest with zeros"
        )


def _precision(input_precision: Any, allow_tf32: Any) -> str:
    given, allowed = plain(input_precision), plain(allow_tf32)
    if dtypes.is_lifted():
        return "ieee"
    if given is None:
        if allowed is None:
            return DotDefaults.input_precision
        return "tf32" if allowed else "ieee"
    if given not in {"tf32", "tf32x3", "ieee"}:
        refuse(f"input_precision={given!r}: use 'tf32', 'tf32x3' or 'ieee'")
    return str(given)


def cut_to_tf32(x: Array) -> Array:
    """Cut float32 to TF32's 10 bits of mantissa, as tensor cores do with float32 registers.

    Source: Triton 3.6 on an H200, where 1 + 15 / 2**13 entered as 1 + 8 / 2**13.
    """
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


def _product(x: Array, y: Array) -> Array:
    """Batched product; a factor that all programs share is multiplied once, as one tall matrix."""
    shared = x.ndim == 3 and y.shape[0] == 1 and x.shape[0] > 1  # noqa: PLR2004 - program, M, K
    left, right = (x.reshape(-1, x.shape[-1]), y[0]) if shared else (x, y)
    product: Array = np.matmul(left, right)
    return product.reshape(x.shape[:-1] + y.shape[-1:]) if shared else product
