"""How fast the simulator is beside Triton's own interpreter, on the reference kernels.

Both run the same launches of the same solution in one process, in turns: the largest public case of
each problem, forward and backward, with the launch parameters that the solution chooses. What a
launch takes is the best of several rounds: other work on the machine only ever adds.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import torch

from grader.discover import REFERENCE
from grader.scorecard import Verdict
from grader.simulator import host_cuda, load_module, recording
from grader.simulator.jit import JITFunction
from grader.spec import Case, Problem
from grader.verify import Context, compare

# input values and gradients are the same in every run of the command
_RANDOM_SEED = 0
# calls of the simulator for one of the interpreter, which takes long enough to average over
# whatever else the machine does
_CALLS_A_ROUND = 5

# name of a kernel and milliseconds, in order of the launches of one call
Times = list[tuple[str, float]]


class UnavailableError(Exception):
    """Triton's interpreter cannot be used here. Says what to do."""


@dataclass(frozen=True)
class KernelSpeed:
    """All launches of one kernel in one call, added up.

    Attributes:
        checked_ms, unchecked_ms: The simulator with all checks and counts, and with none.
        interpreter_ms: Triton's interpreter, which checks and counts nothing.
    """

    problem: str
    case: str
    kernel: str
    n_launches: int
    checked_ms: float
    unchecked_ms: float
    interpreter_ms: float

    @property
    def ratio(self) -> float:
        """How many times faster than the interpreter, with every check on."""
        return self.interpreter_ms / self.checked_ms

    @property
    def unchecked_ratio(self) -> float:
        """How many times faster with checks off."""
        return self.interpreter_ms / self.unchecked_ms


@dataclass(frozen=True)
class ProblemSpeed:
    """The kernels of one problem, and where the values of both ways differ by more than they may."""

    kernels: tuple[KernelSpeed, ...]
    differences: tuple[str, ...]


def geometric_mean(ratios: list[float]) -> float:
    """The mean of ratios."""
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios))


def require_interpreter() -> None:
    """Make Triton interpret in this process.

    Raises:
        UnavailableError: If it is not installed, or was imported without its interpreter.
    """
    if importlib.util.find_spec("triton") is None:
        raise UnavailableError(
            "Triton is not installed here, so there is nothing to compare with: "
            "python -m pip install triton (Linux only)"
        )
    if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
        raise UnavailableError("Triton was imported before; set TRITON_INTERPRET=1 and run again")
    os.environ["TRITON_INTERPRET"] = "1"


def largest_case(problem: Problem) -> Case:
    """The public case with the most input elements; of equal ones the first.

    Not bfloat16, which Triton's interpreter computes wrong.
    """
    public = [c for c in problem.cases if c.visibility == "public" and c.dtype != "bfloat16"]
    return max(public, key=lambda case: _n_elements(problem, case))


def _n_elements(problem: Problem, case: Case) -> int:
    made = problem.make_inputs(case, torch.Generator().manual_seed(_RANDOM_SEED))
    return sum(x.numel() for x in made.values() if isinstance(x, torch.Tensor))


def measure(problem: Problem, n_rounds: int, reference: Path = REFERENCE) -> ProblemSpeed:
    """Time the solution's kernels both ways.

    Args:
        problem: Whose solution and cases.
        n_rounds: How often each way runs; at least 2, since the first compiles and looks up.
        reference: The folder of problems.

    Raises:
        UnavailableError: If the interpreter fails.
    """
    case = largest_case(problem)
    path = reference / problem.name / "solution.py"
    simulated = load_module(path, name=f"simulated_{problem.name}")
    interpreted = _interpreted(path, problem.name)
    rounds: dict[str, list[Times]] = {"checked": [], "unchecked": [], "interpreter": []}
    got = want = {}
    with _matmul_precision(case.matmul_precision), _answers_about_the_gpu():
        for _ in range(n_rounds):
            for _ in range(_CALLS_A_ROUND):
                with recording(), _timed(JITFunction, "run", _simulated_name) as times:
                    got = _call(problem, case, simulated)
                rounds["checked"].append(times)
            for _ in range(_CALLS_A_ROUND):
                with _timed(JITFunction, "run", _simulated_name) as times:
                    _call(problem, case, simulated)
                rounds["unchecked"].append(times)
            with _timed(_grid_executor(), "__call__", _interpreted_name) as times:
                want = _call_interpreted(problem, case, interpreted)
            rounds["interpreter"].append(times)
    return ProblemSpeed(
        _speeds(problem.name, case.id, rounds), tuple(_differences(problem, case, got, want))
    )


def _call_interpreted(problem: Problem, case: Case, module: ModuleType) -> dict[str, torch.Tensor]:
    try:
        return _call(problem, case, module)
    except Exception as error:
        import triton  # noqa: PLC0415  only now is it sure that it interprets

        raise UnavailableError(
            f"the interpreter of Triton {triton.__version__} with NumPy {np.__version__} fails "
            f"on {problem.name}, case {case.id}: {type(error).__name__}: {error}"
        ) from error


@contextlib.contextmanager
def _answers_about_the_gpu() -> Iterator[None]:
    """A solution that asks for the number of multiprocessors gets the same answer both ways."""
    answers = host_cuda.functions()
    asked = ("get_device_properties", "get_device_capability")
    with mock.patch.multiple(torch.cuda, **{name: answers[name] for name in asked}):
        yield


@contextlib.contextmanager
def _matmul_precision(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _interpreted(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"interpreted_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for value in vars(module).values():
        if isinstance(getattr(value, "configs", None), list):
            # the interpreter has no clock to tune by; the simulator takes the first one too
            value.configs = value.configs[:1]
    return module


def _grid_executor() -> type:
    from triton.runtime import interpreter  # noqa: PLC0415  only now is it sure that it interprets

    executor: type = interpreter.GridExecutor
    return executor


def _simulated_name(kernel: Any) -> str:
    return str(kernel.__name__)


def _interpreted_name(executor: Any) -> str:
    return str(executor.fn.__name__)


@contextlib.contextmanager
def _timed(kind: type, method: str, name: Callable[[Any], str]) -> Iterator[Times]:
    """Time each launch in this block: each call of this method."""
    times: Times = []
    launch = getattr(kind, method)

    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return launch(self, *args, **kwargs)
        finally:
            times.append((name(self), (time.perf_counter() - start) * 1e3))

    with mock.patch.object(kind, method, timed):
        yield times


def _call(problem: Problem, case: Case, module: ModuleType) -> dict[str, torch.Tensor]:
    """Outputs and, where the case asks for them, gradients."""
    rng = torch.Generator().manual_seed(_RANDOM_SEED)
    given = problem.make_inputs(case, rng)
    has_backward = "backward" in case.groups
    leaves = {
        name: x.detach().clone().requires_grad_(has_backward and x.is_floating_point())
        if isinstance(x, torch.Tensor)
        else x
        for name, x in given.items()
    }
    y = getattr(module, problem.name)(*leaves.values())
    if not has_backward:
        return {"y": y}
    y.backward(torch.randn(y.shape, generator=rng).to(y.dtype))
    grads = {f"grad:{k}": x.grad for k, x in leaves.items() if isinstance(x, torch.Tensor)}
    return {"y": y.detach(), **{k: g for k, g in grads.items() if g is not None}}


def _speeds(problem: str, case: str, rounds: dict[str, list[Times]]) -> tuple[KernelSpeed, ...]:
    best = {
        way: [min(ms) for ms in zip(*([t for _, t in times] for times in all_times), strict=True)]
        for way, all_times in rounds.items()
    }
    names = [name for name, _ in rounds["checked"][0]]
    speeds = []
    for kernel in dict.fromkeys(names):
        at = [i for i, name in enumerate(names) if name == kernel]
        ms = {way: math.fsum(best[way][i] for i in at) for way in best}
        speeds.append(
            KernelSpeed(
                problem, case, kernel, len(at), ms["checked"], ms["unchecked"], ms["interpreter"]
            )
        )
    return tuple(speeds)


def _differences(
    problem: Problem, case: Case, got: dict[str, torch.Tensor], want: dict[str, torch.Tensor]
) -> Iterator[str]:
    """Values that differ by more than the problem lets a submission be wrong."""
    for name, value in got.items():
        found = compare(
            value,
            want[name].double(),
            problem.tolerance(case, name),
            output=name,
            wrong_verdict=Verdict.WRONG_VALUE,
            context=Context(f"{problem.name}-{case.id}", case.why),
        )
        if found is not None:
            yield str(found.cause)
