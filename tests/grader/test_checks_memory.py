"""grader.checks.memory: which finding decides, and how all of them are told."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from grader.checks.memory import MAX_FINDINGS, _found
from grader.checks.trial import Trial
from grader.discover import load_problem
from grader.grading import Request, opened
from grader.scorecard import Check, Verdict
from grader.seen import FindingSeen

ADD = """
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, {MASK})
    y = tl.load(y_ptr + offsets, {MASK})
    tl.store(out_ptr + offsets, x + y, mask=offsets < n_elements)


def vector_add(x, y):
    x, y = x.contiguous(), y.contiguous()
    out = torch.{MAKE}_like(x)
    add_kernel[(triton.cdiv(x.numel(), 64) - {MISSING},)](x, y, out, x.numel(), BLOCK_SIZE=64)
    return out
"""
CASE = "n1000-float32"  # 15 blocks of 64, and 40 more elements


def memory_of(
    file: Path, *, mask: str = "mask=offsets < n_elements", make: str = "empty", missing: int = 0
) -> Check:
    """The memory check of a vector addition."""
    text = ADD.replace("{MASK}", mask).replace("{MAKE}", make).replace("{MISSING}", str(missing))
    file.write_text(text)
    with opened(Request(file, ("vector_add",), CASE, device="cpu", seed=1)) as grading:
        (trial,) = (trial for trial in grading.trials() if trial.group == "memory")
        return grading.judge(trial)


def test_every_finding_is_told(tmp_path: Path) -> None:
    """Both loads of a kernel without masks: 24 elements each, beyond the last of 1000."""
    check = memory_of(tmp_path / "vector_add.py", mask="")

    assert check.verdict is Verdict.OUT_OF_BOUNDS
    line = ADD[: ADD.index("x = tl.load")].count("\n") + 1
    first, second = check.cause.split("\n  also: ")
    assert f"out of bounds at vector_add.py:{line} in add_kernel, program (15, 0, 0)" in first
    assert f"out of bounds at vector_add.py:{line + 1} in add_kernel, program (15, 0, 0)" in second
    assert first.count("(24 elements)") == second.count("(24 elements)") == 1
    assert "more finding" not in check.cause
    # the advice is the same
    assert check.cause.count("Give tl.load a mask") == 1


def test_a_grid_too_small_is_no_foreign_kernel(tmp_path: Path) -> None:
    """What is missing was never written, and that is why the kernels wrote too little."""
    left_out = memory_of(tmp_path / "vector_add.py", missing=1)
    # of zeros nobody can tell; torch may have computed what the kernels did not
    foreign = memory_of(tmp_path / "vector_add.py", make="zeros", missing=1)

    assert left_out.verdict is Verdict.NEVER_WRITTEN
    assert (
        "40 of 1000 elements of y were never written, the first at index (960,)" in left_out.cause
    )
    line = ADD[: ADD.index("def add_kernel")].count("\n") + 1
    assert f"it is written by vector_add.py:{line} in add_kernel" in left_out.cause
    assert foreign.verdict is Verdict.FOREIGN_KERNEL


def finding(kind: str, text: str) -> FindingSeen:
    """One finding of the kind."""
    return FindingSeen.model_validate(
        {"kind": kind, "where": "f.py:3 in k", "source_line": "", "program": (0, 0, 0)}
        | {"text": text, "count": 1}
    )


@pytest.mark.parametrize(
    ("n", "end"), [(4, ""), (5, "and 1 more finding\n"), (6, "and 2 more findings\n")]
)
def test_many_findings_are_counted(n: int, end: str) -> None:
    """The first ones in full; the verdict's own before all others, these as they were found."""
    problem = load_problem("vector_add")
    trial = Trial(problem, problem.cases[0], "memory")
    races = [finding("race", f"race {i}") for i in range(n - 1)]

    check = _found(trial, [*races, finding("out_of_bounds", "outside")])

    assert check.verdict is Verdict.OUT_OF_BOUNDS
    told = ["outside", *(f"race {i}" for i in range(MAX_FINDINGS - 1))]
    places = [check.cause.index(text) for text in told]
    assert places == sorted(places)
    assert check.cause.count("also: ") == MAX_FINDINGS - 1
    assert "race 3" not in check.cause
    assert (f"\n  {end}" in check.cause) if end else ("more finding" not in check.cause)


def test_the_command_names_the_submission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a path from the folder that it was graded in, so that it can be typed there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my code").mkdir()
    check = memory_of(Path("my code/vector_add.py").resolve(), mask="")

    command = check.cause.split("rerun it: ")[1]
    words = shlex.split(command)
    assert words[:3] == ["make", "grade", "SUBMISSION=my code/vector_add.py"]
    assert words[3] == f"ARGS=--problem vector_add --case {CASE}"
