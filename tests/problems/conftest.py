"""Grades whole files in this process, each once, for the rules that hold for every problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from grader.grading import Request, opened
from grader.scorecard import Check

Verdicts: TypeAlias = "dict[tuple[str, str], Check]"
"""Group and case id to the check."""


@pytest.fixture(scope="session")
def graded() -> Iterator[Callable[[Path, str], Verdicts]]:
    """All checks of one file as a submission for one problem."""
    known: dict[tuple[Path, str], Verdicts] = {}

    def grade(path: Path, problem: str) -> Verdicts:
        if (path, problem) not in known:
            with opened(Request(path, (problem,), device="cpu", seed=20261129)) as grading:
                known[path, problem] = {
                    (trial.group, trial.case.id): grading.judge(trial) for trial in grading.trials()
                }
        return known[path, problem]

    yield grade
    known.clear()
