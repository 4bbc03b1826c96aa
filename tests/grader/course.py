"""A small course in a tree of its own, graded by the command line as a user would."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grader.scorecard import Scorecard

ROOT = Path(__file__).resolve().parent.parent.parent

PROBLEM = '''
"""Doubles a vector; the smallest problem there can be."""

from __future__ import annotations

import torch

from grader.spec import BenchmarkCase, Case, InputSpec, Problem, Tolerance, Traffic


def make_inputs(case, rng):
    return {{"x": torch.randn(case.dims["N"], generator=rng).to(torch.float32)}}


PROBLEM = Problem(
    name="{name}",
    kind="kernel",
    points=10,
    cases=(
        Case({{"N": 5}}, "float32", why="five elements", groups=frozenset({{"forward"}}), timeout_s=5),
        Case({{"N": 8}}, "float32", why="eight elements", groups=frozenset({{"forward"}}), timeout_s=5),
        Case({{"N": 7}}, "float32", why="bounds", groups=frozenset({{"memory"}}), timeout_s=5),
    ),
    make_inputs=make_inputs,
    oracle=lambda x: 2 * x.double(),
    tolerance=lambda case, output: Tolerance(atol=0.0, rtol=1e-6),
    min_bytes=lambda case, phase: 8 * case.dims["N"],
    flops=lambda case, phase: case.dims["N"],
    traffic=lambda case, phase: Traffic(case.dims["N"], case.dims["N"]),
    baselines={{"eager": lambda x: 2 * x, "builtin": None}},
    benchmark_cases=(
        BenchmarkCase({{"N": 64}}, "float32", inputs=(InputSpec("x", (64,), "float32"),)),
    ),
)
'''

SOLUTION = """
import torch
import triton
import triton.language as tl


@triton.jit
def _double_kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    tl.store(y_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)


def {name}(x):
    y = torch.empty_like(x)
    _double_kernel[(triton.cdiv(x.numel(), 4),)](x, y, x.numel(), BLOCK_SIZE=4)
    return y
"""


@dataclass(frozen=True)
class Graded:
    """How a run of the command line ended."""

    code: int
    said: str
    card: Scorecard | None

    def verdicts(self, problem: str) -> set[str]:
        """All verdicts of one problem's forward tests."""
        assert self.card is not None
        (found,) = [p for p in self.card.problems if p.name == problem]
        return {test.verdict.value for test in found.tests if test.group == "forward"}

    def causes(self, problem: str) -> str:
        """All causes of one problem."""
        assert self.card is not None
        (found,) = [p for p in self.card.problems if p.name == problem]
        return "\n".join(test.cause for test in found.tests)

    def score(self, problem: str) -> float | None:
        """Points of one problem."""
        assert self.card is not None
        (found,) = [p for p in self.card.problems if p.name == problem]
        return found.score


@dataclass(frozen=True)
class Course:
    """A tree of its own: this grader, other problems."""

    root: Path

    def add_problem(self, name: str) -> None:
        """One folder, and nothing else."""
        folder = self.root / "reference" / name
        folder.mkdir(parents=True)
        (folder / "problem.py").write_text(PROBLEM.format(name=name))
        (folder / "solution.py").write_text(SOLUTION.format(name=name))

    def submit(self, files: Mapping[str, str]) -> None:
        """What a student hands in."""
        folder = self.root / "assignment"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)

    def command(self, *arguments: str) -> list[str]:
        """The command line that runs in this tree."""
        return [sys.executable, "-m", "grader", *arguments]

    def run(self, *arguments: str) -> Graded:
        """Run the command line, wait for its end, read its card."""
        ended = subprocess.run(
            self.command(*arguments),
            check=False,
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return Graded(ended.returncode, ended.stdout + ended.stderr, self.card())

    def card(self) -> Scorecard | None:
        """The scorecard on disk."""
        path = self.root / "out" / "scorecard.json"
        return Scorecard.model_validate(json.loads(path.read_text())) if path.is_file() else None


def make_course(root: Path, *problems: str) -> Course:
    """A course with these problems in the empty folder ``root``."""
    shutil.copytree(ROOT / "grader", root / "grader", ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copytree(ROOT / "tests" / "submission", root / "tests" / "submission")
    shutil.copy(ROOT / "pyproject.toml", root)
    course = Course(root)
    for name in problems:
        course.add_problem(name)
    return course
