"""Compile-time constants: tl.constexpr, and what a kernel sees of its tl.constexpr arguments."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

from grader.simulator.errors import refuse


class constexpr:  # noqa: N801  tl.constexpr
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
    """An int that is a constant to the compiler: it has ``.value`` as a constexpr does."""

    @property
    def value(self) -> int:
        """The plain number."""
        return int(self)

    def to(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refused, as by the compiler."""
        refuse(
            f"'int' object has no attribute 'to': this {int(self)} is a constant to the compiler (a "
            "tl.constexpr, or an argument that is 1). Write tl.cast(n, dtype), or name the argument in "
            "@triton.jit(do_not_specialize=[...])"
        )


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


class ConstexprFunction:
    """@triton.constexpr_function: plain Python that kernels call with constants."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.__name__ = fn.__name__
        self.__doc__ = fn.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's value, a constant."""
        given = plain(args), {name: plain(value) for name, value in kwargs.items()}
        return constant(self.fn(*given[0], **given[1]))
