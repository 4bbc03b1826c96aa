"""row_sum: a row may be shared by many programs, but each element is read once."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.grading import Request, opened
from grader.scorecard import Check, Verdict

SPLIT = """
import torch
import triton
import triton.language as tl


@triton.jit
def part_kernel(x_ptr, sums_ptr, n_cols, row_stride, col_stride, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x_ptrs = x_ptr + row * row_stride + cols * col_stride
    total = tl.sum(tl.load(x_ptrs, mask=cols < n_cols, other=0.0).to(tl.float32), axis=0)
    {AGAIN}
    tl.atomic_add(sums_ptr + row, total)


def row_sum(x):
    sums = torch.zeros(x.shape[0], device=x.device, dtype=torch.float32)
    grid = (x.shape[0], triton.cdiv(x.shape[1], {BLOCK}))
    part_kernel[grid](x, sums, x.shape[1], *x.stride(), BLOCK_SIZE={BLOCK})
    return sums.to(x.dtype)
"""
TWICE = (
    "total = (total + tl.sum(tl.load(x_ptrs, mask=cols < n_cols, other=0.0).to(tl.float32), axis=0))"
    " / 2"
)


def memory_of(file: Path, case: str, *, block: int, again: str = "pass") -> Check:
    """The memory check of a sum that many programs share."""
    file.write_text(SPLIT.replace("{BLOCK}", str(block)).replace("{AGAIN}", again))
    with opened(Request(file, ("row_sum",), case, device="cpu", seed=1)) as grading:
        (trial,) = (trial for trial in grading.trials() if trial.group == "memory")
        return grading.judge(trial)


# 70,001 elements are 137 blocks of 512, or 69 of 1024
@pytest.mark.parametrize(
    ("case", "block"),
    [("M3-N70001-float32", 512), ("M3-N70001-float32", 1024), ("M1-N300-float32", 256)],
)
def test_programs_may_share_a_row(tmp_path: Path, case: str, block: int) -> None:
    """Each element is read once, and each program adds its part by one atomic."""
    check = memory_of(tmp_path / "row_sum.py", case, block=block)

    assert check.verdict is Verdict.PASSED, check.cause


@pytest.mark.parametrize("case", ["M3-N70001-float32", "M300-N33-float32"])
def test_reading_twice_stays_too_much(tmp_path: Path, case: str) -> None:
    """What partial sums are allowed does not pay for a second reading."""
    check = memory_of(tmp_path / "row_sum.py", case, block=1024, again=TWICE)

    assert check.verdict is Verdict.EXCESS_TRAFFIC


def test_a_part_of_few_elements_is_too_small(tmp_path: Path) -> None:
    """Blocks of 64 make 1094 partial sums a row, eight times what is allowed."""
    check = memory_of(tmp_path / "row_sum.py", "M3-N70001-float32", block=64)

    assert check.verdict is Verdict.EXCESS_TRAFFIC
