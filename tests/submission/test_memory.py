"""Group memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from grader import checks
from grader.checks import Trial
from grader.sandbox.client import Student
from grader.scorecard import Check
from grader.spec import Inputs


@pytest.mark.memory
def test_memory(
    trial: Trial,
    student: Student,
    inputs: Inputs,
    rng: torch.Generator,
    record: Callable[[Check], None],
) -> None:
    """In the simulator no kernel leaves its tensors, races, or moves more than it may."""
    record(checks.memory(trial, student, inputs, rng))
