"""Gives values and constants their Python operators."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from grader.simulator.comparisons import bitwise, compare, invert
from grader.simulator.constants import constexpr, plain
from grader.simulator.operators import (
    add,
    divide,
    floor_divide,
    multiply,
    negative,
    positive,
    remainder,
    subtract,
)
from grader.simulator.values import Value


def bind_operators() -> None:
    """Once, when the language is put together."""
    binary: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
        "add": (add, operator.add),
        "sub": (subtract, operator.sub),
        "mul": (multiply, operator.mul),
        "truediv": (divide, operator.truediv),
        "floordiv": (floor_divide, operator.floordiv),
        "mod": (remainder, operator.mod),
        "and": (lambda a, b: bitwise(np.bitwise_and, a, b), operator.and_),
        "or": (lambda a, b: bitwise(np.bitwise_or, a, b), operator.or_),
        "xor": (lambda a, b: bitwise(np.bitwise_xor, a, b), operator.xor),
        "lshift": (lambda a, b: bitwise(np.left_shift, a, b), operator.lshift),
        "rshift": (lambda a, b: bitwise(np.right_shift, a, b), operator.rshift),
    }
    for name, (ours, python) in binary.items():
        setattr(Value, f"__{name}__", ours)
        setattr(Value, f"__r{name}__", lambda a, b, f=ours: f(b, a))
        setattr(constexpr, f"__{name}__", lambda a, b, f=python: f(a.value, plain(b)))
        setattr(constexpr, f"__r{name}__", lambda a, b, f=python: f(plain(b), a.value))
    comparisons = {
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "eq": np.equal,
        "ne": np.not_equal,
    }
    for name, function in comparisons.items():
        python = getattr(operator, name)
        setattr(Value, f"__{name}__", lambda a, b, f=function: compare(f, a, b))
        setattr(constexpr, f"__{name}__", lambda a, b, f=python: f(a.value, plain(b)))
    setattr(constexpr, "__pow__", lambda a, b: a.value ** plain(b))  # noqa: B010  as its siblings
    setattr(Value, "__neg__", negative)  # noqa: B010
    setattr(Value, "__invert__", invert)  # noqa: B010
    setattr(Value, "__pos__", positive)  # noqa: B010
