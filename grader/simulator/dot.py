"""tl.dot: the operands and sums of a tensor core."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.simulator import dtypes, run
from grader.simulator.constants import plain
from grader.simulator.dtypes import Array, bfloat16, dtype, float16, float32, float64, int8, int32
from grader.simulator.errors import refuse
from grader.simulator.operators import result
from grader.simulator.values import Value, value_of

# the names that kernels know as tl.<name>
LANGUAGE = ("dot",)


_DEFAULT_PRECISION = "tf32"
_PRECISIONS = frozenset({"tf32", "tf32x3", "bf16x3", "bf16x6", "ieee"})
_MIN_K = 16


def dot(
    input: Any,  # noqa: A002  Triton's keyword
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
    wanted, precision = plain(out_dtype), _precision(input_precision, allow_tf32)
    t = _result_type(a.dtype, wanted)
    if a.dtype.is_int():
        product = _product(x.astype(np.float64), y.astype(np.float64)).astype(np.int32)
    else:
        if a.dtype is float32 and precision == "tf32":
            x, y = cut_to_tf32(x), cut_to_tf32(y)
        product = _product(x, y)
        product = t.round(product) if t.rounds else product
    if plain(acc) is None:
        return Value(product, t)
    before = value_of(acc)
    if before.shape != product.shape[1:]:
        refuse(f"tl.dot: acc has shape {before.shape}, the product {product.shape[1:]}")
    if before.dtype is not t:
        refuse(f"tl.dot: acc is {before.dtype}, the product {t}; they must be the same")
    if wanted is not t:
        refuse(f"tl.dot: with acc of {t}, say out_dtype=tl.{_NAMES[t]} too")
    return result(before.data + product, t)


_NAMES = {int32: "int32", float64: "float64", float32: "float32"}


def _result_type(operand: dtype, wanted: Any) -> dtype:
    """int8 adds up in int32, float32 and bfloat16 in float32, float64 in float64, whatever is asked."""
    if wanted is bfloat16:
        refuse("tl.dot has no out_dtype=tl.bfloat16: use tl.float32 and .to(tl.bfloat16)")
    if operand.is_int():
        return int32
    if operand in {float32, bfloat16}:
        return float32
    if operand is float64:
        return float64
    if wanted not in {float16, float32}:
        refuse(f"out_dtype of tl.dot is tl.float32 or tl.float16, not {wanted}")
    return float16 if wanted is float16 else float32


def _check_dot(a: Value, b: Value) -> None:
    if not isinstance(a.dtype, dtype) or not isinstance(b.dtype, dtype):
        refuse("tl.dot takes numbers, not pointers: load the tiles first")
    if a.dtype is not b.dtype and not (a.dtype.is_fp8() and b.dtype.is_fp8()):
        refuse(
            f"tl.dot: both operands must have the same dtype, got {a.dtype} and {b.dtype}; "
            "cast one with .to()"
        )
    rank = len(a.shape)
    if rank != len(b.shape) or rank < 2 or a.shape[-1] != b.shape[-2]:  # noqa: PLR2004  M, K
        refuse(f"tl.dot: shapes {a.shape} and {b.shape} do not multiply")
    if a.dtype.is_int() and a.dtype is not int8:
        refuse(f"tl.dot multiplies floats and int8, not {a.dtype}")
    least = 2 * _MIN_K if a.dtype.itemsize == 1 else _MIN_K
    if a.shape[-1] < least and a.dtype is not float64:
        refuse(
            f"tl.dot: shapes {a.shape} and {b.shape}: the inner axis K must be at least {least}; "
            "use a larger block and mask the rest with zeros"
        )


def _precision(input_precision: Any, allow_tf32: Any) -> str:
    given, allowed = plain(input_precision), plain(allow_tf32)
    if given is not None and allowed is not None:
        refuse("tl.dot takes input_precision or allow_tf32, not both")
    if given is None:
        asked = {None: _DEFAULT_PRECISION}.get(allowed, "tf32" if allowed else "ieee")
        return "ieee" if dtypes.is_lifted() else asked
    if not isinstance(given, str) or given.lower() not in _PRECISIONS:
        refuse(f"input_precision={given!r}: use 'tf32', 'tf32x3' or 'ieee'")
    return "ieee" if dtypes.is_lifted() else given.lower()


def cut_to_tf32(x: Array) -> Array:
    """Cut float32 to TF32's 10 bits of mantissa, as tensor cores do with float32 registers.

    Source: Triton 3.6 on an H200, where 1 + 15 / 2**13 entered as 1 + 8 / 2**13.
    """
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


def _product(x: Array, y: Array) -> Array:
    """Batched product; a factor that all programs share is multiplied once, as one tall matrix.

    The last bits that NumPy gives depend on the place in a tile, where a GPU adds up all elements
    alike: rounded from float64 they do not. That takes several times as long, so it is asked for.
    """
    launch = run.current().launch
    launch.has_products = True
    if launch.exact_products and x.dtype == np.float32:
        return _matmul(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    return _matmul(x, y)


def _matmul(x: Array, y: Array) -> Array:
    shared = x.ndim == 3 and y.shape[0] == 1 and x.shape[0] > 1  # noqa: PLR2004  program, M, K
    left, right = (x.reshape(-1, x.shape[-1]), y[0]) if shared else (x, y)
    product: Array = np.matmul(left, right)
    return product.reshape(x.shape[:-1] + y.shape[-1:]) if shared else product
