"""Group forward."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grader import checks
from grader.checks import Trial
from grader.sandbox.client import Student
from grader.scorecard import Check
from grader.spec import Inputs


@pytest.mark.forward
def test_forward(
    trial: Trial, student: Student, inputs: Inputs, record: Callable[[Check], None]
) -> None:
    """The entry point returns what the float64 oracle computes."""
    record(checks.forward(trial, student, inputs))
