"""Comparisons and bitwise operators: what masks are made of.

An inequality of integer blocks stays a formula, and so does ``&`` of two of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grader.simulator import index
from grader.simulator.dtypes import Array, int1
from grader.simulator.errors import refuse
from grader.simulator.index import Condition
from grader.simulator.operators import bare, formulas, is_pointer, operands
from grader.simulator.values import Value, formula_value, value_of


def compare(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Any:
    """A comparison; with None as Python has it."""
    a, b = bare(a), bare(b)
    if b is None or a is None:
        if isinstance(a, Value) or isinstance(b, Value):
            refuse("a value of the kernel compares with no None: write `is None`")
        return function is np.not_equal
    if is_pointer(a) or is_pointer(b):
        refuse("pointers cannot be compared with anything but None: compare offsets")
    lazily = _condition(function, a, b)
    if lazily is not None:
        return lazily
    x, y, _ = operands(a, b)
    answer = Value(function(x, y), int1)
    if answer.data.ndim == 1 and answer.data.size > 1:
        answer.cause = x if y.size == 1 else y if x.size == 1 else None
    return answer


def _condition(function: Any, a: Any, b: Any) -> Value | None:
    """An inequality of blocks of integers as a formula."""
    ordered = _ORDERED.get(function)
    if ordered is None:
        return None
    pair = formulas(a, b)
    if pair is None or (len(pair[0].shape) == 1 and len(pair[1].shape) == 1):
        return None
    swapped, or_equal = ordered
    x, y = (pair[1], pair[0]) if swapped else pair[:2]
    made = index.below(x, y, or_equal=or_equal)
    return None if made is None else formula_value(made, int1)


_ORDERED: dict[Any, tuple[bool, bool]] = {
    np.less: (False, False),
    np.less_equal: (False, True),
    np.greater: (True, False),
    np.greater_equal: (True, True),
}


def bitwise(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Value:
    """``&``, ``|``, ``^`` and shifts."""
    if function is np.bitwise_and and type(a) is Value and type(b) is Value:
        first, second = a.formula, b.formula
        if type(first) is Condition and type(second) is Condition:
            made = index.both(first, second)
            if made is not None:
                return formula_value(made, int1)
    x, y, t = operands(a, b)
    if t.is_floating():
        refuse(f"bitwise operators take integers, not {t}")
    return Value(function(x, y), t)


def invert(a: Any) -> Value:
    """``~a``."""
    x = value_of(a)
    if not x.dtype.is_int():
        refuse(f"~ takes integers, not {x.dtype}")
    return Value(~x.data, x.dtype)
