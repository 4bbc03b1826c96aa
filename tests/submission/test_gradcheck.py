"""Group gradcheck."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grader import checks
from grader.checks import Trial
from grader.sandbox.client import Student
from grader.scorecard import Check
from grader.spec import Inputs


@pytest.mark.gradcheck
def test_gradcheck(
    trial: Trial, student: Student, inputs: Inputs, record: Callable[[Check], None]
) -> None:
    """In float64 the gradients match finite differences of the forward."""
    record(checks.gradcheck(trial, student, inputs))
