"""Times to the rows of the card, and to the speeds that thresholds pay for. Pure functions.

Pays nothing: ``grader.score`` does, from the speeds, and ``with_paid`` puts the result in the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from grader.measure.constants import CONFIDENCE, TARGET_HALF_WIDTH
from grader.measure.implementations import BaselineError, Impl, impls_of
from grader.measure.pairs import Samples
from grader.measure.roofline import Peaks, limit_ms, roofline_pct
from grader.measure.statistics import Interval, median_time, paired_ratio
from grader.measure.timed_calls import Prepared
from grader.scorecard import PerformanceRow, ThresholdResult
from grader.spec import BenchmarkCase, Phase, Problem, Threshold
from grader.thresholds import Speed

_RowImpl: TypeAlias = Literal["submission", "eager", "builtin", "compile"]


@dataclass(frozen=True)
class Timings:
    """All times of one benchmark case in one phase; ``baselines`` and ``pairs`` by baseline."""

    student: Prepared
    baselines: Mapping[Impl, Prepared]
    pairs: Mapping[Impl, Samples]

    @property
    def student_ms(self) -> tuple[float, ...]:
        """All of the student's timed calls, in order."""
        return tuple(ms for samples in self.pairs.values() for ms in samples.student_ms)

    @property
    def n_verified(self) -> int:
        """Of them, those fetched and found right."""
        return sum(samples.n_verified for samples in self.pairs.values())


@dataclass(frozen=True)
class Measurement:
    """What timing a problem gave.

    Attributes:
        rows: For the card, their thresholds not yet filled in.
        speeds: For ``grader.score``: one per threshold of this GPU.
        held: Why a person must decide, if so.
    """

    rows: tuple[PerformanceRow, ...] = ()
    speeds: tuple[Speed, ...] = ()
    held: str = ""

    def __add__(self, other: Measurement) -> Measurement:
        return Measurement(
            self.rows + other.rows, self.speeds + other.speeds, self.held or other.held
        )


def measured(
    problem: Problem,
    case: BenchmarkCase,
    phase: Phase,
    timings: Timings,
    *,
    gpu: str,
    peaks: Peaks | None,
) -> Measurement:
    """Give the rows of the submission and of each baseline, and the speeds.

    An interval wider than the target is "unstable": its row says so, its lower bound counts.

    Args:
        problem: Gives bytes and operations.
        case: The case timed.
        phase: The phase timed.
        timings: At least ``MIN_PAIRS`` pairs for each baseline.
        gpu: As CUDA names it; thresholds for other models are left out.
        peaks: None where no roofline was measured.

    Raises:
        BaselineError: If a threshold for this GPU is against something that was not measured.
    """
    time = median_time(timings.student_ms)
    intervals = _ratios(problem, case, phase, timings, time, peaks)
    is_calibrated = any(t.gpu == gpu for c in problem.benchmark_cases for t in c.thresholds)
    rows = [
        _row(
            problem,
            case,
            phase,
            "submission",
            median=time,
            ratio=None,
            prepared=timings.student,
            n_verified=timings.n_verified,
            peaks=peaks,
            note="" if is_calibrated else f"no thresholds for {gpu}: speed pays no points here",
        )
    ]
    rows += [
        _row(
            problem,
            case,
            phase,
            impl,
            median=median_time(samples.baseline_ms),
            ratio=intervals[impl],
            prepared=timings.baselines[impl],
            n_verified=samples.n_verified,
            peaks=peaks,
        )
        for impl, samples in timings.pairs.items()
    ]
    speeds = [
        _speed(problem, case, threshold, intervals)
        for threshold in paid_thresholds(case, phase, gpu)
    ]
    return Measurement(tuple(rows), tuple(speeds))


def _ratios(
    problem: Problem,
    case: BenchmarkCase,
    phase: Phase,
    timings: Timings,
    time: Interval,
    peaks: Peaks | None,
) -> dict[str, Interval]:
    """The submission's ratio to each baseline, and to the roofline where it was measured."""
    ratios: dict[str, Interval] = {
        impl: paired_ratio(samples.student_ms, samples.baseline_ms)
        for impl, samples in timings.pairs.items()
    }
    if peaks is not None:
        limit = limit_ms(*_work(problem, case, phase), case.dtype, peaks)
        ratios["roofline"] = Interval(
            limit / time.value, limit / time.high, limit / time.low, time.n
        )
    return ratios


def without_time(
    problem: Problem,
    case: BenchmarkCase,
    phase: Phase,
    status: Literal["not_measured", "failed"],
    reason: str,
    *,
    gpu: str | None,
) -> Measurement:
    """Give rows that only say why there is no time.

    Args:
        problem: Names the baselines.
        case: The case not timed.
        phase: The phase not timed.
        status: "failed" is the submission's doing in the timed calls.
        reason: Whole in the submission's row; its first line in the others and the speeds.
        gpu: Its thresholds pay nothing and stay in the maximum. None where time cannot be measured:
            then there are no speeds, which leaves their points out of the maximum.
    """
    first_line = reason.partition("\n")[0]
    impls: tuple[_RowImpl, ...] = ("submission", *impls_of(problem))
    rows = tuple(
        PerformanceRow(
            problem=problem.name,
            case=case.id,
            phase=phase,
            impl=impl,
            status=status,
            reason=reason if impl == "submission" else first_line,
            n=0,
        )
        for impl in impls
    )
    speeds = tuple(
        Speed(
            case=case.id,
            dtype=case.dtype,
            threshold=threshold,
            ratio=None,
            status="failed",
            reason=first_line,
        )
        for threshold in (paid_thresholds(case, phase, gpu) if gpu is not None else ())
    )
    return Measurement(rows, speeds)


def with_paid(
    measurement: Measurement, paid: Sequence[ThresholdResult]
) -> tuple[PerformanceRow, ...]:
    """Put what each speed was paid, in the order of ``measurement.speeds``, into its row.

    A threshold against the roofline stands in the submission's row, any other in its baseline's.
    """
    by_row: dict[tuple[str, str, str], list[ThresholdResult]] = {}
    for speed, result in zip(measurement.speeds, paid, strict=True):
        impl = "submission" if result.baseline == "roofline" else result.baseline
        by_row.setdefault((speed.case, result.phase, impl), []).append(result)
    rows = tuple(
        row.model_copy(
            update={"thresholds": tuple(by_row.pop((row.case, row.phase, row.impl), ()))}
        )
        for row in measurement.rows
    )
    if by_row:
        raise ValueError(f"paid, but not in any row: {sorted(by_row)}")
    return rows


def paid_thresholds(case: BenchmarkCase, phase: Phase, gpu: str) -> list[Threshold]:
    """Give the thresholds of a case in one phase that hold for this GPU model."""
    return [t for t in case.thresholds if t.gpu == gpu and t.phase == phase]


def _row(
    problem: Problem,
    case: BenchmarkCase,
    phase: Phase,
    impl: _RowImpl,
    *,
    median: Interval,
    ratio: Interval | None,
    prepared: Prepared,
    n_verified: int,
    peaks: Peaks | None,
    note: str = "",
) -> PerformanceRow:
    """Give one measured row; what it estimates, the ratio or the time, may be unstable."""
    estimate = ratio or median
    unstable = _unstable(estimate)
    return PerformanceRow(
        problem=problem.name,
        case=case.id,
        phase=phase,
        impl=impl,
        status="unstable" if unstable else "measured",
        reason="; ".join(text for text in (unstable, note) if text),
        n=estimate.n,
        n_verified=n_verified,
        median_ms=median.value,
        ratio=None if ratio is None else ratio.value,
        ci95=None if ratio is None else (ratio.low, ratio.high),
        roofline_pct=None
        if peaks is None
        else roofline_pct(*_work(problem, case, phase), case.dtype, median.value, peaks),
        peak_bytes=prepared.peak_bytes,
    )


def _work(problem: Problem, case: BenchmarkCase, phase: Phase) -> tuple[int, int]:
    return problem.min_bytes(case, phase), problem.flops(case, phase)


def _speed(
    problem: Problem,
    case: BenchmarkCase,
    threshold: Threshold,
    intervals: Mapping[str, Interval],
) -> Speed:
    interval = intervals.get(threshold.baseline)
    if interval is None:
        raise BaselineError(
            f"{problem.name} [{case.id}] {threshold.phase}: a threshold is against"
            f" {threshold.baseline}, which was not measured"
        )
    unstable = _unstable(interval)
    return Speed(
        case=case.id,
        dtype=case.dtype,
        threshold=threshold,
        ratio=interval.low if unstable else interval.value,
        status="unstable" if unstable else "measured",
        reason=unstable,
    )


def _unstable(interval: Interval) -> str:
    if interval.relative_half_width <= TARGET_HALF_WIDTH:
        return ""
    return (
        f"the {100 * CONFIDENCE:g} % interval is still"
        f" +-{100 * interval.relative_half_width:.1f} % wide after {interval.n} calls; its lower"
        " bound counts"
    )
