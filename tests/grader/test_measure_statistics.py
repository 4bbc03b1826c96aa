"""The ratio is the median over pairs, and its interval covers the truth as often as it says."""

from __future__ import annotations

import numpy as np
import pytest

from grader.measure.statistics import median_time, paired_ratio


def test_equal_times_give_one() -> None:
    """A baseline against itself is 1 with no width."""
    interval = paired_ratio([1.5] * 20, [1.5] * 20)

    assert (interval.value, interval.low, interval.high, interval.n) == (1, 1, 1, 20)


def test_twice_the_time_is_half_the_speed() -> None:
    """The baseline's time stands above the student's."""
    assert paired_ratio([2.0] * 20, [1.0] * 20).value == pytest.approx(0.5)


def test_a_common_slowdown_cancels() -> None:
    """Pairs share the clock speed, so a drift that hits both is no change."""
    drift = np.linspace(1, 3, 20)

    interval = paired_ratio(list(drift), list(1.25 * drift))

    assert interval.value == pytest.approx(1.25)
    assert interval.relative_half_width == pytest.approx(0, abs=1e-12)


def test_one_wild_pair_does_not_move_the_median() -> None:
    """An interrupted call is one of many."""
    assert paired_ratio([1.0] * 19 + [500.0], [1.0] * 20).value == pytest.approx(1)


def test_half_width_is_relative() -> None:
    """Ten times the noise in the log is ten times the width."""
    noise = np.random.default_rng(3).normal(0, 0.01, 40)

    narrow, wide = (
        paired_ratio([1.0] * 40, list(2 * np.exp(scale * noise))).relative_half_width
        for scale in (1, 10)
    )

    assert wide == pytest.approx(10 * narrow, rel=0.1)


def test_interval_covers_the_truth() -> None:
    """Of 300 runs of 40 pairs with 2 % noise, about 95 % of the intervals hold the true ratio."""
    rng = np.random.default_rng(11)
    n_covered = 0
    for _ in range(300):
        student = np.exp(rng.normal(0, 0.02, 40))
        baseline = 0.9 * np.exp(rng.normal(0, 0.02, 40))
        interval = paired_ratio(list(student), list(baseline), n_resamples=500)
        n_covered += interval.low <= 0.9 <= interval.high

    # three standard errors below and above, sqrt(0.95 * 0.05 / 300) = 0.0126 each
    assert 0.91 <= n_covered / 300 <= 0.99


def test_median_time() -> None:
    """The median of unpaired times, in their unit."""
    interval = median_time([3.0, 1.0, 2.0])

    assert interval.value == pytest.approx(2)
    assert 1 <= interval.low <= interval.high <= 3 + 1e-12


@pytest.mark.parametrize(
    ("student", "baseline", "match"),
    [
        pytest.param([], [], "no times", id="none"),
        pytest.param([1.0], [1.0, 1.0], "1 student and 2 baseline", id="unequal"),
        pytest.param([0.0], [1.0], "positive", id="zero"),
        pytest.param([1.0], [float("nan")], "positive", id="nan"),
        pytest.param([1.0], [float("inf")], "positive", id="infinite"),
    ],
)
def test_impossible_times_are_refused(
    student: list[float], baseline: list[float], match: str
) -> None:
    """No number comes out of times that cannot be."""
    with pytest.raises(ValueError, match=match):
        paired_ratio(student, baseline)
