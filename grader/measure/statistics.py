"""Medians with bootstrap intervals: pure functions of times. Measures nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from grader.measure.constants import BOOTSTRAP_SEED, CONFIDENCE, N_RESAMPLES


@dataclass(frozen=True)
class Interval:
    """An estimate with the ends of its confidence interval."""

    value: float
    low: float
    high: float
    n: int

    @property
    def relative_half_width(self) -> float:
        """Half the interval's width, relative to the value."""
        return (self.high - self.low) / 2 / self.value


def paired_ratio(
    student_ms: Sequence[float],
    baseline_ms: Sequence[float],
    *,
    confidence: float = CONFIDENCE,
    n_resamples: int = N_RESAMPLES,
) -> Interval:
    """Estimate how many times faster the student is, from pairs of calls made back to back.

    value = exp(median_i(log(baseline_ms[i] / student_ms[i]))). The interval is the percentile
    bootstrap over pairs (Efron 1979, "Bootstrap methods: another look at the jackknife").
    Anchors: every pair equal gives 1; a student who always takes twice as long gives 0.5.

    Raises:
        ValueError: If there is no pair, the lengths differ, or a time is not positive and finite.
    """
    if len(student_ms) != len(baseline_ms):
        raise ValueError(f"{len(student_ms)} student and {len(baseline_ms)} baseline times")
    logs = _logs(baseline_ms) - _logs(student_ms)
    return _exp_median(logs, confidence, n_resamples)


def median_time(
    times_ms: Sequence[float], *, confidence: float = CONFIDENCE, n_resamples: int = N_RESAMPLES
) -> Interval:
    """Estimate the median of unpaired times in milliseconds; interval as in ``paired_ratio``.

    Raises:
        ValueError: If there is no time, or one is not positive and finite.
    """
    return _exp_median(_logs(times_ms), confidence, n_resamples)


def _logs(times_ms: Sequence[float]) -> npt.NDArray[np.float64]:
    times = np.asarray(times_ms, dtype=np.float64)
    if times.size == 0:
        raise ValueError("no times")
    if not (np.isfinite(times) & (times > 0)).all():
        raise ValueError(f"times must be positive and finite, got {times.min()} to {times.max()}")
    return np.log(times)


def _exp_median(logs: npt.NDArray[np.float64], confidence: float, n_resamples: int) -> Interval:
    # a fixed seed: equal times give an equal grade
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    resampled = logs[rng.integers(0, logs.size, (n_resamples, logs.size))]
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.median(resampled, axis=1), [tail, 1 - tail])
    return Interval(
        value=float(np.exp(np.median(logs))),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        n=int(logs.size),
    )
