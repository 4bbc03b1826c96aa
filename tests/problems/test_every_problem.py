"""Rules that hold for every problem: what must pass passes, and each known mistake is caught."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
import torch

from grader import inputs, verify
from grader.checks.trial import double_leaves, grad_outputs, oracle
from grader.discover import REFERENCE, ROOT, load_problem, problem_names
from grader.scorecard import Check, Verdict
from grader.spec import MAX_GRADCHECK_ELEMENTS, Case, Problem

Verdicts: TypeAlias = "dict[tuple[str, str], Check]"
Graded: TypeAlias = "Callable[[Path, str], Verdicts]"

EXPECTED = {"EXPECTED_VERDICT", "EXPECTED_GROUP", "EXPECTED_CASES"}
NAMES = problem_names()
PROBLEMS = [pytest.param(load_problem(name), id=name) for name in NAMES]
KERNELS = [name for name in NAMES if load_problem(name).kind == "kernel"]
WRONG = [
    pytest.param(path, id=f"{path.parent.parent.name}-{path.stem}")
    for path in sorted(REFERENCE.glob("*/wrong/*.py"))
]
FORWARD_CASES, BACKWARD_CASES = (
    [
        pytest.param(load_problem(name), case, id=f"{name}-{case.id}")
        for name in KERNELS
        for case in load_problem(name).cases_in(group)
    ]
    for group in ("forward", "backward")
)


def failed(verdicts: Verdicts) -> dict[tuple[str, str], Verdict]:
    """Group and case of each test that failed."""
    return {
        key: check.verdict
        for key, check in verdicts.items()
        if check.verdict not in {Verdict.PASSED, Verdict.NOT_CHECKABLE}
    }


def allowed(name: str, verdict: Verdict) -> set[Verdict]:
    """A verdict, and for a scenario that not every case can be checked on every machine."""
    return {verdict} if name in KERNELS else {verdict, Verdict.NOT_CHECKABLE}


def expectation(path: Path) -> dict[str, object]:
    """The EXPECTED_ constants of a wrong file, read without running it."""
    constants: dict[str, object] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name.startswith("EXPECTED_"):
                constants[name] = ast.literal_eval(node.value)
    missing = EXPECTED - constants.keys()
    assert not missing, f"{path} must say at its top: {', '.join(sorted(missing))}"
    return constants


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_solution_passes_every_test(name: str, graded: Graded) -> None:
    """The staff solution passes every test of every group, hidden cases too.

    A scenario's cases that need a GPU are not checkable without one; something always is.
    """
    verdicts = graded(REFERENCE / name / "solution.py", name)

    passing = allowed(name, Verdict.PASSED)
    causes = [check.cause for check in verdicts.values() if check.verdict not in passing]
    assert Verdict.PASSED in {check.verdict for check in verdicts.values()}

    assert not causes, "\n\n".join(causes)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_stub_is_not_implemented(name: str, graded: Graded) -> None:
    """An untouched stub passes nothing and fails nothing: every test says not implemented."""
    verdicts = graded(ROOT / "assignment" / f"{name}.py", name)

    got = {check.verdict for check in verdicts.values()}
    assert Verdict.NOT_IMPLEMENTED in got
    assert got <= allowed(name, Verdict.NOT_IMPLEMENTED)


@pytest.mark.parametrize(("problem", "case"), FORWARD_CASES)
def test_zeros_fail(problem: Problem, case: Case) -> None:
    """No case has a tolerance so loose that an output of zeros passes it."""
    given = inputs.draw(problem, case, seed=1)
    context = verify.Context("zeros", case.why)

    for name, want in oracle(problem, given).items():
        check = verify.compare(
            torch.zeros_like(want),
            want,
            problem.tolerance(case, name),
            output=name,
            wrong_verdict=Verdict.WRONG_VALUE,
            context=context,
        )
        assert check is not None


@pytest.mark.parametrize(("problem", "case"), BACKWARD_CASES)
def test_zero_gradients_fail(problem: Problem, case: Case) -> None:
    """No case has a tolerance so loose that gradients of zero pass it."""
    leaves = double_leaves(inputs.draw(problem, case, seed=1))
    outputs = oracle(problem, leaves)
    sent = grad_outputs(case, outputs, inputs.rng_for(2))
    asked = {n: x for n, x in leaves.items() if isinstance(x, torch.Tensor) and x.requires_grad}
    wanted = torch.autograd.grad(
        list(outputs.values()),
        list(asked.values()),
        [sent[name].double() for name in outputs],
    )
    context = verify.Context("zeros", case.why)

    for name, want in zip(asked, wanted, strict=True):
        check = verify.compare(
            torch.zeros_like(want),
            want,
            problem.tolerance(case, f"grad:{name}"),
            output=name,
            wrong_verdict=Verdict.WRONG_GRADIENT,
            context=context,
        )
        assert check is not None, name


@pytest.mark.slow
@pytest.mark.parametrize("path", WRONG)
def test_wrong_submission_is_caught(path: Path, graded: Graded) -> None:
    """A known mistake gets the verdict its file names, from the group and the cases it names."""
    expected = expectation(path)
    caught = {
        case: verdict
        for (group, case), verdict in failed(graded(path, path.parent.parent.name)).items()
        if group == expected["EXPECTED_GROUP"]
    }

    assert set(caught.values()) == {Verdict(str(expected["EXPECTED_VERDICT"]))}
    if expected["EXPECTED_CASES"] is not None:
        assert sorted(caught) == sorted(expected["EXPECTED_CASES"])  # type: ignore[call-overload]  # a tuple of ids


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_kind_of_mistake_is_known(problem: Problem, graded: Graded) -> None:
    """Some mistake is caught by the memory group alone, some by a single case, some by backward."""
    paths = sorted((REFERENCE / problem.name / "wrong").glob("*.py"))
    misses = [failed(graded(path, problem.name)) for path in paths]
    groups = [{group for group, _ in miss} for miss in misses]

    assert len(paths) >= 3, f"reference/{problem.name}/wrong/ needs three files or more"
    if problem.kind == "scenario":
        return
    assert {"memory"} in groups, "no wrong file is caught by the memory group alone"
    one_case = any(len({case for _, case in miss}) == 1 for miss in misses)
    assert one_case, "no wrong file is caught by a single case"
    if problem.differentiable:
        in_backward = {"backward"} in groups or {"backward", "gradcheck"} in groups
        assert in_backward, "no wrong file is caught by backward alone"


@pytest.mark.parametrize("problem", PROBLEMS)
def test_gradcheck_case_is_small(problem: Problem) -> None:
    """A differentiable problem has one gradcheck case, small enough for slow mode."""
    cases = problem.cases_in("gradcheck")

    assert len(cases) == (1 if problem.differentiable else 0)
    for case in cases:
        given = inputs.draw(problem, case, seed=1).values()
        n = sum(value.numel() for value in given if isinstance(value, torch.Tensor))
        assert n <= MAX_GRADCHECK_ELEMENTS


@pytest.mark.parametrize("problem", PROBLEMS)
def test_why_is_a_sentence_of_its_own(problem: Problem) -> None:
    """No two cases of a problem give the same reason."""
    reasons = [case.why for case in problem.cases]

    assert len(reasons) == len(set(reasons))
