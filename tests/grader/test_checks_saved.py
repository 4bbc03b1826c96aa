"""What a forward must save for its backward: one tensor, of the problem's shape, with right values."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.discover import REFERENCE
from grader.grading import Request, opened
from grader.scorecard import Check, Verdict

# no kernel: the group forward looks at values alone
ATTENTION = """
import torch


class FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, is_causal=False):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        lse = torch.logsumexp(scores, dim=-1)
        ctx.save_for_backward({SAVED})
        return torch.softmax(scores, dim=-1) @ v


def flash_attention(q, k, v, is_causal=False):
    return FlashAttention.apply({ARGUMENTS})
"""
CASE = "B3-NQ100-NK100-D64-float32"


def judged(folder: Path, source: str, case: str = CASE, group: str = "forward") -> Check:
    """The check of one case of flash_attention in one group."""
    (folder / "flash_attention.py").write_text(source)
    request = Request(folder / "flash_attention.py", case=case, device="cpu", seed=1)
    with opened(request) as grading:
        (trial,) = [trial for trial in grading.trials() if trial.group == group]
        return grading.judge(trial)


def attention(saved: str, arguments: str = "q, k, v, is_causal", after: str = "") -> str:
    """The submission that saves these, and does something with the result afterwards."""
    source = ATTENTION.replace("{SAVED}", saved).replace("{ARGUMENTS})", "{ARGUMENTS})" + after)
    return source.replace("{ARGUMENTS}", arguments)


@pytest.mark.parametrize(
    "saved",
    [
        pytest.param("q, k, v, lse", id="with-the-inputs"),
        pytest.param("lse", id="alone"),
        pytest.param("lse.double()", id="in-another-dtype"),
    ],
)
def test_the_right_tensor_passes(tmp_path: Path, saved: str) -> None:
    """Its dtype, and what else is saved, is the student's choice."""
    assert judged(tmp_path, attention(saved)).verdict is Verdict.PASSED


AFTERWARDS = [
    pytest.param(".view(3, -1).view(q.shape)", id="views"),
    pytest.param("[:, :100].contiguous()", id="a-slice"),
    pytest.param(".double().float()", id="casts"),
]


@pytest.mark.parametrize("after", AFTERWARDS)
def test_a_wrapper_may_end_in_views(tmp_path: Path, after: str) -> None:
    """What counts is the function that made the result, not the last operator on it."""
    assert judged(tmp_path, attention("q, lse", after=after)).verdict is Verdict.PASSED


@pytest.mark.parametrize("after", AFTERWARDS)
def test_what_is_saved_behind_views_is_judged(tmp_path: Path, after: str) -> None:
    """It is missed, and told, as without them."""
    check = judged(tmp_path, attention("q", after=after))

    assert check.verdict is Verdict.WRONG_SHAPE
    assert "forward saves tensors of shapes (3, 100, 64) for the backward" in check.cause


@pytest.mark.parametrize(
    ("saved", "told"),
    [
        pytest.param("q", "saves tensors of shapes (3, 100, 64)", id="none"),
        pytest.param("lse, lse + 1", "saves tensors of shapes (3, 100), (3, 100)", id="two"),
        pytest.param("lse[:, :, None]", "saves tensors of shapes (3, 100, 1)", id="another-shape"),
        pytest.param("", "saves nothing", id="nothing"),
    ],
)
def test_any_number_but_one_is_refused(tmp_path: Path, saved: str, told: str) -> None:
    """The message says what is saved, and what should be."""
    check = judged(tmp_path, attention(saved))

    assert check.verdict is Verdict.WRONG_SHAPE
    assert f"forward {told} for the backward" in check.cause
    assert "want exactly one tensor of shape (3, 100)" in check.cause


@pytest.mark.parametrize(
    ("arguments", "after"),
    [
        pytest.param("q.detach(), k.detach(), v.detach(), is_causal", "", id="without-a-graph"),
        pytest.param("q, k, v, is_causal", " + 0 * q", id="of-two-results"),
    ],
)
def test_a_result_of_no_function_is_told_so(tmp_path: Path, arguments: str, after: str) -> None:
    """There is nothing to look at: not that forward saves nothing, and no exception of ours."""
    check = judged(tmp_path, attention("lse", arguments, after))

    assert check.verdict is Verdict.WRONG_SHAPE
    assert "for autograd the output comes from no torch.autograd.Function" in check.cause
    assert "want exactly one tensor of shape (3, 100)" in check.cause


def test_wrong_contents_are_a_wrong_value(tmp_path: Path) -> None:
    """Right outputs do not make up for them; the message names the tensor."""
    check = judged(tmp_path, attention("lse * 1.4427"))

    assert check.verdict is Verdict.WRONG_VALUE
    assert "300 of 300 values of the tensor saved for the backward are wrong" in check.cause
    assert "every wrong value is 1.4427 times the wanted one" in check.cause


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param("wrong/writes_scores.py", Verdict.EXCESS_TRAFFIC, id="scores-written"),
        pytest.param("wrong/saves_log2.py", Verdict.PASSED, id="scores-kept-in-registers"),
    ],
)
def test_the_forward_alone_keeps_to_its_traffic(tmp_path: Path, source: str, want: Verdict) -> None:
    """What a backward of PyTorch's operators leaves unused does not pay for the scores."""
    text = (REFERENCE / "flash_attention" / source).read_text()
    check = judged(tmp_path, text, group="memory")

    assert check.verdict is want
    if want is Verdict.EXCESS_TRAFFIC:
        # y, lse and the scores; allowed are y and two numbers a query
        assert "the forward's kernels read" in check.cause
        assert f"write {3 * (100 * 64 + 100 + 100 * 100)} elements" in check.cause
        assert f"and {3 * (100 * 64 + 2 * 100)}" in check.cause
