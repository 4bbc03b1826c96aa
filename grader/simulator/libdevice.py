"""triton.language.extra.libdevice: NVIDIA's mathematics for float32 and float64.

Compiled by Triton, these take subnormal float32 as zero. Errors of their own are not imitated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from grader.simulator import mathematics
from grader.simulator.creation import cast
from grader.simulator.dtypes import Array, float32, int32
from grader.simulator.mathematics import by_torch, flushed, flushing
from grader.simulator.values import Value

_UNARY: dict[str, Callable[[Array], Array]] = {
    **mathematics.UNARY,
    "sqrt_rn": np.sqrt,
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
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "rint": np.rint,
    "nearbyint": np.rint,
    "round": lambda x: np.trunc(x + np.copysign(x.dtype.type(0.5), x)),
    "trunc": np.trunc,
    "erfc": by_torch(torch.erfc),
    "erfinv": by_torch(torch.erfinv),
    "lgamma": by_torch(torch.lgamma),
    "sinpi": lambda x: np.sin(x * x.dtype.type(np.pi)),
    "cospi": lambda x: np.cos(x * x.dtype.type(np.pi)),
    "rcp_rn": np.reciprocal,
    "fast_expf": np.exp,
    "fast_exp10f": lambda x: np.power(x.dtype.type(10), x),
    "fast_logf": np.log,
    "fast_log2f": np.log2,
    "fast_log10f": np.log10,
    "fast_sinf": np.sin,
    "fast_cosf": np.cos,
    "fast_tanf": np.tan,
    "fast_tanhf": np.tanh,
}
_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "pow": np.power,
    "fast_powf": np.power,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "fdim": lambda x, y: np.where(x > y, x - y, np.where(np.isnan(x + y), x + y, 0)),
    "fast_dividef": np.divide,
    "div_rn": np.divide,
    "add_rn": np.add,
    "sub_rn": np.subtract,
    "mul_rn": np.multiply,
}
_PREDICATES: dict[str, Callable[[Array], Array]] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "finitef": np.isfinite,
    "isfinited": np.isfinite,
}
# what changes bits alone keeps subnormals
_KEEP_SUBNORMALS = {"copysign", "exp2", "log", "log2"}


def float_as_int(x: Any) -> Value:
    """The bits of a float32."""
    return cast(x, int32, bitcast=True)


def int_as_float(x: Any) -> Value:
    """A float32 of these bits."""
    return cast(x, float32, bitcast=True)


def _flushing(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda x, y: flushed(function(flushed(x), flushed(y)))


def names() -> dict[str, Any]:
    """Every function by its name."""
    unary = {n: f if n in _KEEP_SUBNORMALS else flushing(f) for n, f in _UNARY.items()}
    binary = {n: f if n in _KEEP_SUBNORMALS else _flushing(f) for n, f in _BINARY.items()}
    return {
        **{n: mathematics.unary(n, f) for n, f in unary.items()},
        **{n: mathematics.binary(n, f) for n, f in binary.items()},
        **{n: mathematics.predicate(n, f) for n, f in _PREDICATES.items()},
        "abs": mathematics.abs,
        "fma": mathematics.fma,
        "float_as_int": float_as_int,
        "int_as_float": int_as_float,
    }
