"""What one threshold pays."""

from __future__ import annotations

import pytest

from grader.spec import Threshold
from grader.thresholds import Speed, pay, share

THRESHOLD = Threshold(
    gpu="NVIDIA H200", baseline="eager", phase="forward", anchors=((1.0, 0.0), (2.0, 1.0))
)


def speed(ratio: float | None = 1.5, status: str = "measured", reason: str = "") -> Speed:
    """A ratio against a threshold that pays 0 at 1 and all at 2."""
    return Speed(
        case="N8-float32",
        dtype="float32",
        threshold=THRESHOLD,
        ratio=ratio,
        status=status,  # type: ignore[arg-type]  # one wrong value is tested
        reason=reason,
    )


@pytest.mark.parametrize(
    ("ratio", "want"),
    [
        pytest.param(0.5, 0.1, id="below-the-first-anchor-is-flat"),
        pytest.param(1.0, 0.1, id="at-the-first"),
        pytest.param(1.25, 0.2, id="halfway-in-the-first-piece"),
        pytest.param(1.5, 0.3, id="at-the-second"),
        pytest.param(2.5, 0.65, id="halfway-in-the-second-piece"),
        pytest.param(3.5, 1.0, id="at-the-last"),
        pytest.param(90.0, 1.0, id="above-the-last-is-flat"),
    ],
)
def test_anchors_are_joined_linearly(ratio: float, want: float) -> None:
    """Shares between two anchors lie on the line through them."""
    assert share(((1.0, 0.1), (1.5, 0.3), (3.5, 1.0)), ratio) == pytest.approx(want)


def test_one_anchor_is_a_constant() -> None:
    """A single anchor pays its share at any ratio."""
    assert share(((1.0, 0.5),), 0.1) == share(((1.0, 0.5),), 9.0) == 0.5


def test_a_measured_ratio_pays_its_share() -> None:
    """Halfway between anchors 0 and 1, 8 points pay 4."""
    paid = pay(speed(1.5), max_points=8)

    assert (paid.points, paid.max_points, paid.share, paid.reason) == (4.0, 8, 0.5, "")


def test_an_unstable_ratio_pays_and_says_so() -> None:
    """The bound that counts is paid, with the reason beside it."""
    paid = pay(speed(1.25, "unstable", "half-width 2 %: lower bound"), max_points=8)

    assert (paid.points, paid.reason) == (2.0, "half-width 2 %: lower bound")


def test_failed_tests_refuse_any_ratio() -> None:
    """Speed without correctness earns 0 and stays in the maximum."""
    paid = pay(speed(5.0), max_points=8, refused="1 of 3 forward tests did not pass")

    assert (paid.points, paid.share) == (0.0, 0.0)
    assert paid.reason == "1 of 3 forward tests did not pass"


def test_a_failed_benchmark_earns_zero() -> None:
    """A submission that fails while timed earns 0 of what it could."""
    paid = pay(speed(None, "failed", "wrong value in a timed call"), max_points=8)

    assert (paid.points, paid.share, paid.reason) == (0.0, 0.0, "wrong value in a timed call")


@pytest.mark.parametrize("refused", ["", "1 of 3 forward tests did not pass"])
def test_what_was_not_measured_has_no_share(refused: str) -> None:
    """No share: it leaves the maximum, whatever the tests said."""
    paid = pay(speed(None, "not_measured", "no GPU"), max_points=8, refused=refused)

    assert (paid.points, paid.share, paid.reason) == (0.0, None, "no GPU")


def test_without_a_checked_test_nothing_is_paid_or_lost() -> None:
    """Unchecked leaves the maximum; a failure elsewhere weighs more."""
    assert pay(speed(), max_points=8, unchecked="none checked").share is None
    assert pay(speed(), max_points=8, unchecked="none checked", refused="failed").share == 0.0


@pytest.mark.parametrize(
    ("ratio", "status", "reason", "message"),
    [
        pytest.param(None, "measured", "", "measured with ratio None", id="measured-needs-one"),
        pytest.param(float("nan"), "measured", "", "ratio nan", id="nan-is-no-ratio"),
        pytest.param(1.0, "failed", "x", "failed with ratio 1.0", id="failed-has-none"),
        pytest.param(None, "not_measured", "", "must say why", id="not-measured-says-why"),
    ],
)
def test_contradictions_are_refused(
    ratio: float | None, status: str, reason: str, message: str
) -> None:
    """A speed whose fields disagree cannot be made."""
    with pytest.raises(ValueError, match=message):
        speed(ratio, status, reason)
