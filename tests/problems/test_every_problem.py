"""Rules that hold for every problem: what must pass passes, and each known mistake is caught."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import TypeGuard

import pytest
import torch

from grader import inputs
from grader.discover import REFERENCE, ROOT, load_problem, problem_names
from grader.sandbox.launcher import Launcher
from grader.soundness import examine
from grader.spec import MAX_GRADCHECK_ELEMENTS, Problem
from grader.specimens import Specimen, specimens

NAMES = problem_names()
PROBLEMS = [pytest.param(load_problem(name), id=name) for name in NAMES]
KERNELS = [name for name in NAMES if load_problem(name).kind == "kernel"]
SPECIMENS = [
    pytest.param(specimen, id=specimen.name.replace("/", "-"))
    for name in NAMES
    for specimen in specimens(load_problem(name), REFERENCE, ROOT / "assignment")
]


LARGE = 20_000  # elements; larger cases are drawn less often


def is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    """Whether an argument is a tensor."""
    return isinstance(value, torch.Tensor)


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


@pytest.mark.parametrize("problem", PROBLEMS)
def test_inputs_are_drawn_whatever_the_seed(problem: Problem) -> None:
    """A grading's seed is secret and new: no draw may fail, or look for numbers without an end."""

    def out_of_time(*_: object) -> None:
        raise TimeoutError("a draw took over 20 s")

    before = signal.signal(signal.SIGALRM, out_of_time)
    try:
        for case in problem.cases:
            signal.alarm(20)
            size = sum(x.numel() for x in inputs.draw(problem, case, 0).values() if is_tensor(x))
            for seed in range(1, 3 if size > LARGE else 60):
                inputs.draw(problem, case, seed)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


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
