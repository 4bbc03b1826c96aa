"""tl.maximum, tl.minimum and tl.clamp: the larger and the smaller of two, NaN and -0.0 included."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from grader.simulator.constants import plain
from grader.simulator.creation import cast
from grader.simulator.dtypes import Array, bfloat16, float32
from grader.simulator.errors import refuse
from grader.simulator.operators import operands
from grader.simulator.values import Value, value_of

# the names that kernels know as tl.<name>
LANGUAGE = ("PropagateNan", "clamp", "maximum", "minimum")


class PropagateNan(enum.Enum):
    """tl.PropagateNan."""

    NONE = 0
    ALL = 1


def _comparable(x: Any) -> Value:
    """As tl.maximum takes it: numbers are float32 or int32 values, bfloat16 becomes float32."""
    value = value_of(x)
    return cast(value, float32) if value.dtype is bfloat16 else value


def maximum(x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE) -> Value:
    """The larger; a NaN loses unless ``propagate_nan``, and -0.0 to 0.0."""
    larger = np.maximum if _propagates(propagate_nan) else np.fmax
    a, b, t = operands(_comparable(x), _comparable(y))
    largest = larger(a, b)
    both = _both_zero(a, b)
    if both is not None:
        largest = np.where(both, a + b, largest)
    return Value(largest, t)


def minimum(x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE) -> Value:
    """The smaller; a NaN loses unless ``propagate_nan``, and 0.0 to -0.0."""
    smaller = np.minimum if _propagates(propagate_nan) else np.fmin
    a, b, t = operands(_comparable(x), _comparable(y))
    smallest = smaller(a, b)
    both = _both_zero(a, b)
    if both is not None:
        smallest = np.where(both, -(-a - b), smallest)
    return Value(smallest, t)


def _both_zero(a: Array, b: Array) -> Array | None:
    """Where two floats are zeros, which NumPy takes for equal whatever their signs; None: nowhere."""
    if a.dtype.kind != "f" or (a.size == 1 and a.any()) or (b.size == 1 and b.any()):
        return None
    both = (a == 0) & (b == 0)
    return both if both.any() else None


def _propagates(propagate_nan: Any) -> bool:
    given = plain(propagate_nan)
    if not isinstance(given, PropagateNan):
        refuse(f"propagate_nan is tl.PropagateNan.ALL or tl.PropagateNan.NONE, not {given!r}")
    return given is PropagateNan.ALL


def clamp(x: Any, min: Any, max: Any, propagate_nan: Any = PropagateNan.NONE) -> Value:  # noqa: A002
    """``x`` held between two bounds."""
    held = minimum(maximum(x, min, propagate_nan), max, propagate_nan)
    if not held.dtype.is_floating():
        refuse(f"tl.clamp takes floats, not {held.dtype}: use tl.minimum and tl.maximum")
    return held
