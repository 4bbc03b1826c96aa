"""grader.checks: what a group says of code that is half done."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.grading import Request, opened
from grader.scorecard import Check, Verdict

HALF_DONE = """
import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets{MASK})
    tl.store(y_ptr + offsets, x, mask=offsets < n_elements)


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        _kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK_SIZE=64)
        return y

    @staticmethod
    def backward(ctx, dy):
        raise NotImplementedError("TODO: backward")


def gelu(x):
    return Copy.apply(x.contiguous())
"""


def checks_of(folder: Path, mask: str) -> dict[str, Check]:
    """Checks of one case of gelu by group; 917 elements do not fill the last block."""
    (folder / "gelu.py").write_text(HALF_DONE.replace("{MASK}", mask))
    request = Request(folder / "gelu.py", case="M7-N131-float32", device="cpu", seed=1)
    with opened(request) as grading:
        return {trial.group: grading.judge(trial) for trial in grading.trials()}


@pytest.mark.parametrize(
    ("mask", "want"),
    [
        pytest.param("", Verdict.OUT_OF_BOUNDS, id="without-mask"),
        pytest.param(", mask=offsets < n_elements", Verdict.NOT_IMPLEMENTED, id="with-mask"),
    ],
)
def test_memory_looks_at_the_forward_while_the_backward_is_missing(
    tmp_path: Path, mask: str, want: Verdict
) -> None:
    """A missing mask is told at once, not only when the backward is written, too."""
    checks = checks_of(tmp_path, mask)

    assert checks["memory"].verdict is want
    assert checks["backward"].verdict is Verdict.NOT_IMPLEMENTED
    assert checks["forward"].verdict is Verdict.WRONG_VALUE


WITHOUT_AUTOGRAD = (
    HALF_DONE[: HALF_DONE.index("class Copy")]
    + """
def gelu(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    x = x.detach().contiguous()
    _kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK_SIZE=64)
    return y{CAST}
"""
)


@pytest.mark.parametrize(
    ("cast", "want"),
    [
        pytest.param("", Verdict.WRONG_GRADIENT, id="no-gradient"),
        pytest.param(".double()", Verdict.WRONG_DTYPE, id="no-output-to-send-gradients-through"),
    ],
)
def test_memory_does_not_pass_a_backward_that_never_ran(
    tmp_path: Path, cast: str, want: Verdict
) -> None:
    """A clean forward alone earns no memory points of a problem with a gradient."""
    text = WITHOUT_AUTOGRAD.replace("{MASK}", ", mask=offsets < n_elements")
    (tmp_path / "gelu.py").write_text(text.replace("{CAST}", cast))
    request = Request(tmp_path / "gelu.py", case="M7-N131-float32", device="cpu", seed=1)

    with opened(request) as grading:
        checks = {trial.group: grading.judge(trial) for trial in grading.trials()}

    assert checks["memory"].verdict is want
