"""Rules that hold for every problem: what must pass passes, and each known mistake is caught."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from grader import inputs, verify
from grader.checks.trial import double_leaves, grad_outputs, oracle
from grader.discover import REFERENCE, ROOT, load_problem, problem_names
from grader.sandbox.launcher import Launcher
from grader.scorecard import Verdict
from grader.soundness import Specimen, examine, specimens
from grader.spec import MAX_GRADCHECK_ELEMENTS, Case, Problem

NAMES = problem_names()
PROBLEMS = [pytest.param(load_problem(name), id=name) for name in NAMES]
KERNELS = [name for name in NAMES if load_problem(name).kind == "kernel"]
SPECIMENS = [
    pytest.param(specimen, id=specimen.name.replace("/", "-"))
    for name in NAMES
    for specimen in specimens(load_problem(name), REFERENCE, ROOT / "assignment")
]
FORWARD_CASES, BACKWARD_CASES = (
    [
        pytest.param(load_problem(name), case, id=f"{name}-{case.id}")
        for name in KERNELS
        for case in load_problem(name).cases_in(group)
    ]
    for group in ("forward", "backward")
)


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    """Starts the processes of all tests here."""
    started = Launcher()
    yield started
    started.close()


@pytest.mark.slow
@pytest.mark.parametrize("specimen", SPECIMENS)
def test_file_is_as_it_must_be(specimen: Specimen, launcher: Launcher) -> None:
    """The solution passes everything, the stub nothing, a wrong file is caught by what it names."""
    examined = examine(specimen, "cpu", REFERENCE, launcher)

    assert not examined.complaints, "\n\n".join(examined.complaints)


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
