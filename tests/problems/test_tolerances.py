"""A tolerance lets honest rounding through with room to spare, and nothing else.

For every case: the staff solution and PyTorch's own operators stay within a quarter of it; zeros do
not pass, and in a benchmark zeros pass in no tile of rows, which would save work. A float32
case refuses float16 arithmetic, but where tensor cores may round to TF32, which
keeps no more bits: there only the case that announces ieee refuses both. That the other cases let TF32
through is part of the first: the simulator rounds as tensor cores do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import pytest
import torch

from grader import inputs
from grader.checks.trial import double_leaves, grad_outputs
from grader.discover import REFERENCE, load_problem, problem_names
from grader.grading import Request, opened
from grader.measure.fill import make_inputs
from grader.measure.verification import as_case
from grader.sandbox.launcher import Launcher
from grader.scorecard import Verdict
from grader.spec import BenchmarkCase, Case, Inputs, Problem, Tolerance

SEED = 20261130
ROOM = 4
# sizes of benchmarks here: enough rows, and rows long enough, for the last to differ from the first
LARGEST = 2048
# the least that a kernel leaves out at a time: rows, or values of an output which has one axis
TILE, ROW = 16, 64
Values: TypeAlias = "dict[str, torch.Tensor]"
GROUPS: tuple[Literal["forward", "backward"], ...] = ("forward", "backward")
PROBLEMS = [p for p in map(load_problem, problem_names()) if p.kind == "kernel"]
# their products may round to TF32 in all cases but the one that says otherwise
TF32_ALLOWED = {
    problem.name
    for problem in PROBLEMS
    if any(case.matmul_precision == "highest" for case in problem.cases)
}
TESTS = [
    (problem, case, group)
    for problem in PROBLEMS
    for group in GROUPS
    for case in problem.cases_in(group)
]


def parameters(is_asked: Callable[[Problem, Case], bool]) -> list[Any]:
    """Those of the forward and backward tests that are asked for."""
    return [
        pytest.param(problem, case, group, id=f"{group}-{problem.name}-{case.id}")
        for problem, case, group in TESTS
        if is_asked(problem, case)
    ]


def refuses_half(problem: Problem, case: Case) -> bool:
    """Whether float16 is too coarse for the case."""
    if problem.name in TF32_ALLOWED:
        return case.matmul_precision == "highest"
    return case.dtype == "float32"


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    """Starts the processes of all tests here."""
    started = Launcher()
    yield started
    started.close()


def values(case: Case, function: Callable[..., Any], given: Inputs, group: str) -> Values:
    """What ``function`` returns by output name or, of backward, the gradients of its inputs.

    The gradients sent back are drawn for the case; all functions get the same.
    """
    leaves = {
        name: value.detach().requires_grad_()
        if isinstance(value, torch.Tensor) and value.is_floating_point()
        else value
        for name, value in given.items()
    }
    returned = function(*leaves.values())
    several = returned if isinstance(returned, tuple) else None
    outputs: Values = (
        {"y": returned} if several is None else {f"y{i}": y for i, y in enumerate(several)}
    )
    if group == "forward":
        return {name: output.detach() for name, output in outputs.items()}
    sent = grad_outputs(case, outputs, inputs.rng_for(SEED, case.id))
    asked = {n: x for n, x in leaves.items() if isinstance(x, torch.Tensor) and x.requires_grad}
    grads = torch.autograd.grad(
        list(outputs.values()),
        list(asked.values()),
        [sent[name].to(output.dtype) for name, output in outputs.items()],
    )
    return {f"grad:{name}": grad for name, grad in zip(asked, grads, strict=True)}


def wanted(problem: Problem, case: Case, given: Inputs, group: str) -> Values:
    """What the oracle says, in float64."""
    return values(case, problem.oracle, double_leaves(given), group)


def beyond(problem: Problem, case: Case, got: Values, want: Values, room: float = 1) -> list[str]:
    """The outputs that are not within 1 / ``room`` of their tolerance."""
    wrong = []
    for name, wanted_value in want.items():
        tolerance, value = problem.tolerance(case, name), got[name].double()
        limit = tolerance.limit(wanted_value) / room
        within = torch.isfinite(wanted_value) & ((value - wanted_value).abs() <= limit)
        if not bool((within | (value == wanted_value)).all()):
            share = ((value - wanted_value).abs() / limit).nan_to_num(float("inf")).max() / room
            wrong.append(f"{name}: the largest error is {float(share):.3g} of the tolerance")
    return wrong


def cast(given: Inputs, change: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
    """The inputs with every floating tensor changed."""
    return {
        name: change(value)
        if isinstance(value, torch.Tensor) and value.is_floating_point()
        else value
        for name, value in given.items()
    }


def tf32(x: torch.Tensor) -> torch.Tensor:
    """A float32 tensor rounded to the 10 bits of fraction that TF32 keeps.

    >>> tf32(torch.tensor([1 + 2**-10, 1 + 2**-12])).tolist()
    [1.0009765625, 1.0]
    """
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize("problem", [pytest.param(p, id=p.name) for p in PROBLEMS])
def test_solution_has_room(problem: Problem, launcher: Launcher) -> None:
    """The staff solution, rounding as a GPU does, is within a quarter of every tolerance."""

    def quarter(case: Case | BenchmarkCase, output: str) -> Tolerance:
        whole = problem.tolerance(case, output)  # type: ignore[arg-type]  # a Case here
        return Tolerance(whole.atol / ROOM, whole.rtol / ROOM, whole.row / ROOM)

    request = Request(
        REFERENCE / problem.name / "solution.py", (problem.name,), device="cpu", seed=SEED
    )
    with opened(request, launcher) as grading:
        checks = {
            trial.id: grading.judge(replace(trial, problem=replace(problem, tolerance=quarter)))
            for trial in grading.trials(GROUPS)
        }

    assert checks
    failed = {
        name: check.cause for name, check in checks.items() if check.verdict is not Verdict.PASSED
    }
    assert not failed, "\n\n".join(failed.values())


@pytest.mark.parametrize(("problem", "case", "group"), parameters(lambda *_: True))
def test_eager_has_room(problem: Problem, case: Case, group: str) -> None:
    """PyTorch's own operators, in the dtype of the case, are within a quarter of the tolerance."""
    eager = problem.baselines["eager"]
    assert eager is not None
    given = inputs.draw(problem, case, SEED)

    got = values(case, eager, given, group)

    assert not beyond(problem, case, got, wanted(problem, case, given, group), ROOM)


@pytest.mark.parametrize(("problem", "case", "group"), parameters(lambda *_: True))
def test_zeros_fail(problem: Problem, case: Case, group: str) -> None:
    """No output and no gradient may be all zeros."""
    want = wanted(problem, case, inputs.draw(problem, case, SEED), group)
    zeros = {name: torch.zeros_like(value) for name, value in want.items()}

    assert len(beyond(problem, case, zeros, want)) == len(want)


@pytest.mark.parametrize(("problem", "case", "group"), parameters(refuses_half))
def test_half_arithmetic_fails_in_float32(problem: Problem, case: Case, group: str) -> None:
    """Computed in float16 the result is beyond the tolerance, unless float16 holds it exactly."""
    eager = problem.baselines["eager"]
    assert eager is not None
    given = inputs.draw(problem, case, SEED)
    want = wanted(problem, case, given, group)

    got = values(case, eager, cast(given, torch.Tensor.half), group)

    is_exact = all(bool((got[name] == value).all()) for name, value in want.items())
    assert is_exact or beyond(problem, case, got, want)


@pytest.mark.parametrize(
    ("problem", "case", "group"), parameters(lambda _, case: case.matmul_precision == "highest")
)
def test_tf32_fails_where_ieee_is_announced(problem: Problem, case: Case, group: str) -> None:
    """Inputs rounded as a tensor core rounds them give a result beyond the tolerance."""
    given = inputs.draw(problem, case, SEED)

    got = wanted(problem, case, cast(given, tf32), group)

    assert beyond(problem, case, got, wanted(problem, case, given, group))


def reduced(case: BenchmarkCase) -> BenchmarkCase:
    """The benchmark at sizes for a CPU, one batch of it."""
    dims = {axis: 1 if axis == "B" else min(size, LARGEST) for axis, size in case.dims.items()}
    size = {whole: dims[axis] for axis, whole in case.dims.items()}
    assert all(spec.stride is None for spec in case.inputs)
    inputs = tuple(replace(s, shape=tuple(size[n] for n in s.shape)) for s in case.inputs)
    return replace(case, dims=dims, inputs=inputs)


def zeros_passed(problem: Problem, case: Case, name: str, want: torch.Tensor) -> int:
    """How many of an output's tiles may be all zeros."""
    beyond_limit = want.abs() > problem.tolerance(case, name).limit(want)
    tiles = beyond_limit.reshape(-1, TILE * want.shape[-1] if want.ndim > 1 else ROW)
    return int((~tiles.any(dim=-1)).sum())


@pytest.mark.parametrize(
    ("problem", "benchmark"),
    [
        pytest.param(problem, case, id=f"{problem.name}-{case.id}")
        for problem in PROBLEMS
        for case in problem.benchmark_cases
    ],
)
def test_zeros_in_any_tile_of_a_benchmark_fail(problem: Problem, benchmark: BenchmarkCase) -> None:
    """A timed kernel that leaves rows out, of the result or of a gradient, is wrong."""
    small = reduced(benchmark)
    case = as_case(small)
    drawn = make_inputs(small.inputs, SEED, torch.device("cpu"))
    given: Inputs = dict(zip((spec.name for spec in small.inputs), drawn, strict=True))
    given |= small.scalars
    groups = GROUPS if problem.differentiable else GROUPS[:1]

    passed = {
        name: zeros_passed(problem, case, name, want)
        for group in groups
        for name, want in wanted(problem, case, given, group).items()
    }

    assert passed
    assert not any(passed.values()), passed
