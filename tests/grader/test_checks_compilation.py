"""The compiler beside the simulator: what it refuses is a verdict, and where it is absent nothing is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from grader import card
from grader.card import Results
from grader.grading import Request, opened
from grader.report.kernels import kernels as reported
from grader.sandbox import compiling
from grader.scorecard import Check, ProblemResult, Verdict

SUBMISSION = """
import torch
import triton
import triton.language as tl


@DECORATOR
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + tl.load(y_ptr + offsets, mask=mask), mask=mask)


def vector_add(x, y):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    x, y = x.contiguous(), y.contiguous()
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
    add_kernel[grid](x, y, out, x.numel()OPTIONS)
    return out
"""


@dataclass(frozen=True)
class Graded:
    """The checks of one case by group, and its problem in the card."""

    checks: dict[str, Check]
    problem: ProblemResult
    source: str


def graded(folder: Path, *, options: str = "", configs: str = "") -> Graded:
    """Grade an addition of vectors, launched with options or tuned over configs."""
    decorator = f"@triton.autotune([{configs}], key=[])" if configs else ""
    options = "" if configs else f", BLOCK=256{options}"
    source = SUBMISSION.replace("@DECORATOR", decorator).replace("OPTIONS", options)
    (folder / "vector_add.py").write_text(source)
    request = Request(folder / "vector_add.py", ("vector_add",), device="cpu", seed=1)
    with opened(request) as grading:
        results = Results(grading)
        trials = {trial.group: trial for trial in reversed(grading.trials())}
        for trial in trials.values():
            results.add(trial, grading.judge(trial), 0.0)
        (problem,) = card.build(results, "only some cases").problems
        checks = {str(o.group): o.check for o in results.outcomes["vector_add"]}
    return Graded(checks, problem, source)


def config(num_warps: int) -> str:
    """A config of autotune."""
    return f"triton.Config({{'BLOCK': 256}}, num_warps={num_warps})"


@pytest.mark.triton
def test_what_the_compiler_refuses_is_a_verdict(tmp_path: Path) -> None:
    """2048 threads run in the simulator, and on no GPU; memory is the simulator's to judge."""
    seen = graded(tmp_path, options=", num_warps=64")

    check = seen.checks["forward"]
    line = 1 + seen.source.splitlines().index(
        "def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):"
    )
    assert check.verdict is Verdict.COMPILE_ERROR
    assert f"vector_add.py:{line}: num_warps=64 makes 2048 threads" in check.cause
    assert "def add_kernel(x_ptr" in check.cause
    assert "refuses it for sm_90" in check.cause
    assert seen.checks["memory"].verdict is Verdict.PASSED
    assert not seen.problem.kernels


@pytest.mark.triton
def test_what_compiles_stands_in_the_card(tmp_path: Path) -> None:
    """Each kernel once, for the course's GPU."""
    seen = graded(tmp_path, options=", num_warps=8")

    assert {check.verdict for check in seen.checks.values()} == {Verdict.PASSED}
    (kernel,) = seen.problem.kernels
    assert (kernel.kernel, kernel.target, kernel.num_warps) == ("add_kernel", "sm_90", 8)
    assert (kernel.spill_bytes, kernel.shared_bytes, kernel.occupancy_pct) == (0, 0, 100.0)
    assert "BLOCK=256" in kernel.signature
    assert not seen.problem.notes


@pytest.mark.triton
def test_one_config_that_cannot_run_is_a_note(tmp_path: Path) -> None:
    """On a GPU autotune passes over it, and nobody would hear of it."""
    seen = graded(tmp_path, configs=f"{config(4)}, {config(64)}")

    assert {check.verdict for check in seen.checks.values()} == {Verdict.PASSED}
    (note,) = seen.problem.notes
    assert "num_warps: 64" in note
    assert "cannot run on sm_90" in note
    assert {kernel.num_warps for kernel in seen.problem.kernels} == {4}


@pytest.mark.triton
def test_a_first_config_that_cannot_run_is_a_note_too(tmp_path: Path) -> None:
    """The simulator takes the first; on the GPU it is the second."""
    seen = graded(tmp_path, configs=f"{config(64)}, {config(4)}")

    assert {check.verdict for check in seen.checks.values()} == {Verdict.PASSED}
    assert {kernel.num_warps for kernel in seen.problem.kernels} == {4}


@pytest.mark.triton
def test_no_config_that_can_run_is_a_verdict(tmp_path: Path) -> None:
    """Then tuning has nothing to choose."""
    seen = graded(tmp_path, configs=f"{config(64)}, {config(128)}")

    assert seen.checks["forward"].verdict is Verdict.COMPILE_ERROR


def test_without_triton_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same kernel passes, and the card says of no kernel that it compiled."""
    monkeypatch.setattr(compiling, "is_available", lambda: False)

    seen = graded(tmp_path, options=", num_warps=64")

    assert {check.verdict for check in seen.checks.values()} == {Verdict.PASSED}
    assert (seen.problem.kernels, seen.problem.notes) == ((), ())


@pytest.mark.triton
def test_the_report_names_what_was_compiled(tmp_path: Path) -> None:
    """One line for a problem."""
    seen = graded(tmp_path, options=", num_warps=8")

    (line,) = [str(text) for text in reported([seen.problem])]

    assert line.startswith("vector_add: 1 kernel compiled for sm_90")
    assert "no spills" in line
