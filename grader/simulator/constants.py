"""Compile-time constants: tl.constexpr, and what a kernel sees of its tl.constexpr arguments."""

from __future__ import annotations

import operator
from typing import Any


class constexpr:  # noqa: N801 - tl.constexpr
    """A number known at compile time. Arithmetic on it happens in Python."""

    def __init__(self, value: Any) -> None:
        self.value: Any = value.value if isinstance(value, constexpr) else value

    def __index__(self) -> int:
        return operator.index(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"constexpr[{self.value}]"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call a constant function."""
        return self.value(*args, **kwargs)

    def __neg__(self) -> Any:
        return -self.value

    def __invert__(self) -> Any:
        return ~self.value

    def __getitem__(self, index: Any) -> Any:
        return self.value[plain(index)]


class ConstantInt(int):
    """An int given for a tl.constexpr parameter: it has ``.value`` as a constexpr does."""

    @property
    def value(self) -> int:
        """The plain number."""
        return int(self)


class ConstantFloat(float):
    """A float given for a tl.constexpr parameter."""

    @property
    def value(self) -> float:
        """The plain number."""
        return float(self)


def constant(x: Any) -> Any:
    """What a kernel sees of an argument for a tl.constexpr parameter."""
    given = plain(x)
    if type(given) is int:
        return ConstantInt(given)
    return ConstantFloat(given) if type(given) is float else given


def plain(x: Any) -> Any:
    """The Python value of a constexpr, also inside tuples and lists; anything else as it is."""
    if isinstance(x, constexpr):
        return x.value
    if isinstance(x, (tuple, list)):
        return type(x)(plain(item) for item in x)
    return x
