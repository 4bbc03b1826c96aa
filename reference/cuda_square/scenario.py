"""Runs one case of cuda_square in the student's process."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from grader.cuda_host import trial

ENTRIES = ("cuda_square",)

# before the submission is imported
trial.begin()


def run(submission: ModuleType, case: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What calling the entry point did."""
    return trial.run(submission, "cuda_square", arguments)
