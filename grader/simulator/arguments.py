"""What functions of the language ask of their arguments: numbers, an axis, a constant.

Shapes and integers are in creation.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grader.simulator.constants import plain
from grader.simulator.dtypes import dtype
from grader.simulator.errors import refuse
from grader.simulator.values import Value, value_of


def numbers(x: Any, function: str) -> Value:
    """A value that is no pointer."""
    given = value_of(x)
    if not isinstance(given.dtype, dtype):
        refuse(f"{function} takes numbers, not {given.dtype}: load them first")
    return given


def integers(x: Any, function: str) -> Value:
    """A value of integers."""
    given = numbers(x, function)
    if not given.dtype.is_int():
        refuse(f"{function} takes integers, not {given.dtype}")
    return given


def block(x: Any, function: str) -> Value:
    """A value with axes, of numbers."""
    given = numbers(x, function)
    if not given.shape:
        refuse(f"{function} takes a block, and this is a scalar: it has no axis")
    return given


def axis_of(x: Value, axis: Any) -> int:
    """Which axis of a block is meant, counted from the front; -1 is the last."""
    given, rank = plain(axis), len(x.shape)
    if not isinstance(given, int) or not -rank <= given < rank:
        refuse(f"axis {given!r} is out of range for a block of shape {x.shape}")
    return given % rank


def element_type(t: Any) -> dtype:
    """A type of numbers."""
    given = plain(t)
    if not isinstance(given, dtype):
        refuse(f"a type such as tl.float32 is needed here, not {given!r}")
    return given


def flag(x: Any, name: str) -> bool:
    """A choice made at compile time."""
    given = plain(x)
    if given is not None and not isinstance(given, int):
        what = "a value computed while the kernel runs" if isinstance(given, Value) else given
        refuse(f"{name} is True or False, a constant, not {what!s}")
    return bool(given)


def combiner(function: Any, name: str) -> Callable[..., Any]:
    """What tl.reduce and tl.associative_scan combine with."""
    # functions of tl have no such list
    if not callable(function) or not hasattr(function, "arg_names"):
        refuse(f"{name} combines with a @triton.jit function of two values, not {function!r}")
    combine: Callable[..., Any] = function
    return combine
