"""Judges one case of one group: asks the student's process, compares with the oracle.

The verifier's side. What student code does, however it ends, comes back as a check; an exception
out of here is a fault of the grader.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from grader.checks import values
from grader.checks.gradcheck import gradcheck
from grader.checks.memory import memory
from grader.checks.scenario import scenario
from grader.checks.trial import Trial
from grader.checks.values import backward
from grader.sandbox.client import Student
from grader.scorecard import Check
from grader.spec import Group, Inputs

__all__ = ["Trial", "backward", "forward", "gradcheck", "judge", "memory"]


def forward(trial: Trial, student: Student, inputs: Inputs) -> Check:
    """The values of the entry point; of a scenario, what it saw."""
    if trial.problem.kind == "scenario":
        return scenario(trial, student, inputs)
    return values.forward(trial, student, inputs)


def judge(trial: Trial, student: Student, inputs: Inputs, rng: torch.Generator) -> Check:
    """The check of any group. ``rng`` draws the gradients sent back."""
    groups: dict[Group, Callable[[], Check]] = {
        "forward": lambda: forward(trial, student, inputs),
        "backward": lambda: backward(trial, student, inputs, rng),
        "gradcheck": lambda: gradcheck(trial, student, inputs),
        "memory": lambda: memory(trial, student, inputs, rng),
    }
    return groups[trial.group]()
