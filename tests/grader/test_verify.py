"""grader.verify: values, shapes, and the words a student reads."""

from __future__ import annotations

import math

import pytest
import torch

from grader.scorecard import MAX_CAUSE_CHARS, Check, Verdict
from grader.spec import Tolerance
from grader.verify import Context, check_form, compare, fail

CONTEXT = Context("forward[softmax-M2-N4-float32]", "N is odd", "make grade ARGS=...")


def judged(got: torch.Tensor, want: torch.Tensor, *, context: Context = CONTEXT) -> Check | None:
    """Compare with atol 0.125 and rtol 0.25: limits that are exact in binary."""
    return compare(
        got,
        want,
        Tolerance(atol=0.125, rtol=0.25),
        output="y",
        wrong_verdict=Verdict.WRONG_VALUE,
        context=context,
    )


@pytest.mark.parametrize(
    ("got", "want"),
    [
        pytest.param(1.0, 1.0, id="equal"),
        pytest.param(0.125, 0.0, id="at-the-absolute-limit"),
        pytest.param(5.125, 4.0, id="at-both-limits-together"),
        pytest.param(-math.inf, -math.inf, id="the-same-infinity"),
    ],
)
def test_within_tolerance(got: float, want: float) -> None:
    """What differs by no more than atol + rtol |want| is right."""
    assert judged(torch.tensor([got]), torch.tensor([want], dtype=torch.float64)) is None


@pytest.mark.parametrize(
    ("got", "want", "verdict"),
    [
        pytest.param(0.126, 0.0, Verdict.WRONG_VALUE, id="beyond-the-limit"),
        pytest.param(math.nan, 0.0, Verdict.NON_FINITE, id="nan-where-a-number-is-wanted"),
        pytest.param(math.inf, 1.0, Verdict.NON_FINITE, id="infinity-where-a-number-is-wanted"),
        pytest.param(0.0, math.inf, Verdict.WRONG_VALUE, id="number-where-infinity-is-wanted"),
        pytest.param(math.nan, math.nan, Verdict.WRONG_VALUE, id="nan-is-never-right"),
        pytest.param(math.inf, -math.inf, Verdict.WRONG_VALUE, id="the-other-infinity"),
    ],
)
def test_beyond_tolerance(got: float, want: float, verdict: Verdict) -> None:
    """Anything else is wrong, NaN always."""
    check = judged(torch.tensor([got]), torch.tensor([want], dtype=torch.float64))

    assert check is not None
    assert check.verdict is verdict


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_row_is_judged_by_its_own_size(value: float) -> None:
    """A quarter of each row's root mean square, 4 and 0.125; what is not finite adds nothing."""
    want = torch.tensor([[4.0, -4.0], [0.125, 0.125], [value, 0.0]], dtype=torch.float64)

    limit = Tolerance(atol=0.5, rtol=0.0, row=0.25).limit(want)

    assert limit[:2].tolist() == [[1.5, 1.5], [0.53125, 0.53125]]
    assert limit[2, 1] == 0.5


def test_message_says_where_what_and_how_to_rerun() -> None:
    """The first wrong value with its index, got, want, allowed; the pattern; the command."""
    want = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]], dtype=torch.float64)
    got = want.clone()
    got[1, 2:] = 0

    check = judged(got, want)

    assert check is not None
    assert check.cause.splitlines() == [
        "forward[softmax-M2-N4-float32]: 2 of 8 values of y are wrong",
        "  first at index (1, 2): got 0, want 7 (allowed error 1.9)",
        "  largest error 8 at index (1, 3): got 0, want 8",
        "  pattern: every wrong value is 0",
        "  this case checks: N is odd",
        "  rerun it: make grade ARGS=...",
    ]


def test_hidden_case_shows_no_values() -> None:
    """A hidden case tells its verdict and its reason, no number and no command."""
    hidden = Context(CONTEXT.test, CONTEXT.why, CONTEXT.rerun, hidden=True)

    check = judged(torch.tensor([7.25]), torch.tensor([1.0], dtype=torch.float64), context=hidden)

    assert check is not None
    assert check.cause.splitlines() == [
        "forward[softmax-M2-N4-float32]: wrong_value",
        "  this case checks: N is odd",
    ]


@pytest.mark.parametrize(
    ("wrong", "pattern"),
    [
        pytest.param({"columns": 3}, "all at indices 3 to 3 of the last axis", id="last-column"),
        pytest.param({"rows": 1}, "all in 1 of 2 rows, first row 1", id="one-row"),
        pytest.param({"factor": 3.0}, "every wrong value is 3 times the wanted one", id="factor"),
    ],
)
def test_pattern_states_what_is_regular(wrong: dict[str, float], pattern: str) -> None:
    """Wrong values that lie or relate regularly are described so."""
    want = torch.tensor([[4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]], dtype=torch.float64)
    got = want.clone()
    if "columns" in wrong:
        got[:, 3] += torch.tensor([100.0, 50.0])
    if "rows" in wrong:
        got[1] += torch.tensor([100.0, 50.0, 70.0, 90.0])
    got *= wrong.get("factor", 1.0)

    check = judged(got, want)

    assert check is not None
    assert f"pattern: {pattern}" in check.cause


@pytest.mark.parametrize(
    ("shape", "dtype", "verdict"),
    [
        pytest.param((2, 1), "float32", Verdict.WRONG_SHAPE, id="broadcastable-shape"),
        pytest.param((2,), "float16", Verdict.WRONG_DTYPE, id="dtype"),
        pytest.param((1,), "float16", Verdict.WRONG_SHAPE, id="shape-before-dtype"),
    ],
)
def test_form(shape: tuple[int, ...], dtype: str, verdict: Verdict) -> None:
    """Shape and dtype must be exactly those wanted."""
    check = check_form(shape, dtype, (2,), "float32", output="y", context=CONTEXT)

    assert check is not None
    assert check.verdict is verdict
    assert check_form((2,), "float32", (2,), "float32", output="y", context=CONTEXT) is None


def test_long_cause_fits_the_card() -> None:
    """A message of 4,096 and a traceback of 16,384 characters are cut in the middle only."""
    check = fail(Verdict.CRASHED, "x" * 4096, CONTEXT, "y" * 16_384)

    assert len(check.cause) <= MAX_CAUSE_CHARS
    assert check.cause.startswith("forward[softmax-M2-N4-float32]: xxx")
    assert " characters cut ...]" in check.cause
    assert check.cause.endswith("rerun it: make grade ARGS=...")


def test_fail_always_explains() -> None:
    """Even a bare failure names the test and the reason of the case."""
    check = fail(Verdict.TIMEOUT, "running took over 20 s", CONTEXT)

    assert check.cause.startswith("forward[softmax-M2-N4-float32]: running took over 20 s")
    assert "this case checks: N is odd" in check.cause
