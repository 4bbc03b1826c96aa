"""Group backward."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from grader import checks
from grader.checks import Trial
from grader.sandbox.client import Student
from grader.scorecard import Check
from grader.spec import Inputs


@pytest.mark.backward
def test_backward(
    trial: Trial,
    student: Student,
    inputs: Inputs,
    rng: torch.Generator,
    record: Callable[[Check], None],
) -> None:
    """The gradients are those of the float64 oracle."""
    record(checks.backward(trial, student, inputs, rng))
