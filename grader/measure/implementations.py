"""What submissions are timed against. Runs in the baselines' process only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import torch

from grader.measure.constants import COMPILE_DYNAMIC, COMPILE_FULLGRAPH
from grader.spec import Problem

Impl: TypeAlias = Literal["eager", "builtin", "compile"]

IMPLS: tuple[Impl, ...] = ("eager", "builtin", "compile")


class BaselineError(RuntimeError):
    """A baseline could not be measured: the grader's fault, never the student's."""


def impls_of(problem: Problem) -> tuple[Impl, ...]:
    """Give the baselines this problem has, in the order of the table."""
    given = {impl for impl, fn in problem.baselines.items() if fn is not None}
    return tuple(
        impl for impl in IMPLS if impl in given or (impl == "compile" and "eager" in given)
    )


def baseline(problem: Problem, impl: Impl) -> Callable[..., Any]:
    """Give the function to time, called like the submission's entry point.

    "compile" is torch.compile of the function given for it, or of eager, compiled afresh: the compiler's
    cache of earlier sizes is dropped, or it would fall back to eager after a few of them.

    Raises:
        BaselineError: If the problem has no such baseline.
    """
    fn = problem.baselines.get(impl)
    if impl == "compile":
        fn = fn or problem.baselines.get("eager")
    if fn is None:
        raise BaselineError(f"{problem.name}: problem.py has no baseline {impl!r}")
    if impl != "compile":
        return fn
    torch.compiler.reset()
    return torch.compile(fn, fullgraph=COMPILE_FULLGRAPH, dynamic=COMPILE_DYNAMIC)
