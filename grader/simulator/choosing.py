"""Kernels whose constants are chosen at launch: what they share, and @triton.heuristics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from grader.simulator import jit


class Chooser:
    """A kernel whose constants are chosen at launch."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn
        self.arg_names: list[str] = fn.arg_names
        self.__name__: str = fn.__name__
        self.__doc__ = fn.__doc__
        self.__module__ = fn.__module__

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **kwargs: jit.start(self, grid, args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call from inside another kernel, with all constants given."""
        return self.fn(*args, **kwargs)

    @property
    def definition(self) -> tuple[str, int]:
        """File and line of the kernel."""
        place: tuple[str, int] = self.fn.definition
        return place

    def warmup(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: there is no compiler here."""
        self.fn.warmup(*args, **kwargs)
        raise AssertionError

    def positional(self, args: Sequence[Any]) -> dict[str, Any]:
        """The positional arguments of a launch by name."""
        return dict(zip(self.arg_names, args, strict=False))

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> None:
        """Choose the constants, then launch."""
        raise NotImplementedError


class Heuristics(Chooser):
    """@triton.heuristics: constants computed from the arguments."""

    def __init__(self, fn: Any, values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> None:
        super().__init__(fn)
        self.values = dict(values)

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> None:
        """Launch with the computed constants."""
        self.fn.run(*args, grid=grid, **self._computed(args, kwargs))

    def bind(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments of a launch by name, with the computed constants, and its options."""
        bound: tuple[dict[str, Any], dict[str, Any]]
        bound = self.fn.bind(args, self._computed(args, kwargs))
        return bound

    def _computed(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        named, with_constants = {**self.positional(args), **kwargs}, dict(kwargs)
        for name, compute in self.values.items():
            named[name] = with_constants[name] = compute(named)
        return with_constants


def heuristics(
    values: Mapping[str, Callable[[dict[str, Any]], Any]],
) -> Callable[[Any], Heuristics]:
    """@triton.heuristics."""
    return lambda fn: Heuristics(fn, values)
