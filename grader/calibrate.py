"""Thresholds for speed from a measured scorecard of the reference. Measures nothing itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from grader.measure import threshold_file
from grader.measure.constants import PAID_PHASES
from grader.scorecard import PerformanceRow, Scorecard, Status, Verdict
from grader.spec import Baseline, Problem, Threshold


class CalibrationError(ValueError):
    """The card cannot give thresholds: another GPU's, incomplete, or not the reference's."""


def only(card: Scorecard, names: Sequence[str]) -> Scorecard:
    """The card with these problems alone; its score, which is of all, is of no use then.

    Raises:
        CalibrationError: If it does not hold one of them.
    """
    held = {problem.name for problem in card.problems}
    missing = [name for name in names if name not in held]
    if missing:
        raise CalibrationError(
            f"this scorecard holds no {', '.join(missing)}; its problems: {', '.join(sorted(held))}"
        )
    kept = tuple(problem for problem in card.problems if problem.name in names)
    return card.model_copy(update={"problems": kept})


def check_cases(card: Scorecard, problems: Sequence[Problem]) -> None:
    """Raise CalibrationError if the card timed what is no benchmark case of its problem.

    Thresholds for such a case would keep the whole problem from loading.
    """
    ids = {problem.name: {case.id for case in problem.benchmark_cases} for problem in problems}
    for row in card.performance:
        if row.problem in ids and row.case not in ids[row.problem]:
            raise CalibrationError(
                f"{row.problem} has no benchmark case {row.case!r}, only"
                f" {', '.join(sorted(ids[row.problem])) or 'none'}: measure the reference again"
            )


def calibrate(card: Scorecard, against: Mapping[str, Baseline], reference: Path) -> list[Path]:
    """Write thresholds.json of every problem in the card that has speed; other GPUs' stay.

    Every paid phase of every benchmark case gets one threshold, at which the reference has 10 % to
    spare.

    Args:
        card: Of the reference, made on the GPU the thresholds are for.
        against: What each problem's speed is paid against.
        reference: The folder of problems.

    Raises:
        CalibrationError: If a problem lost points in its tests, or a row was not measured well.
        ValueError: If a thresholds.json that is there cannot be read.
        OSError: If one cannot be written; the others are then as they were.
    """
    gpu = card.environment.gpu
    if gpu is None:
        raise CalibrationError("this scorecard was made without a GPU: speed was not measured")
    if card.status is not Status.GRADED:
        raise CalibrationError(f"this scorecard is {card.status}: {card.reason}")
    merged = {}
    for problem in card.problems:
        rows = [row for row in card.performance if row.problem == problem.name]
        if not rows:
            continue
        failed = [test.id for test in problem.tests if test.verdict is not Verdict.PASSED]
        if failed:
            raise CalibrationError(f"{failed[0]} did not pass: is this the reference's scorecard?")
        path = reference / problem.name / "thresholds.json"
        before = threshold_file.load(path) if path.exists() else {}
        merged[path] = _merged(before, rows, gpu, against[problem.name])
    threshold_file.dump_all(merged)
    return list(merged)


def _merged(
    before: Mapping[str, Sequence[Threshold]],
    rows: Sequence[PerformanceRow],
    gpu: str,
    baseline: Baseline,
) -> dict[str, tuple[Threshold, ...]]:
    merged = {
        case: tuple(threshold for threshold in thresholds if threshold.gpu != gpu)
        for case, thresholds in before.items()
    }
    # the roofline has no row of its own: the submission's says how much of it was reached
    impl = "submission" if baseline == "roofline" else baseline
    for row in rows:
        if row.phase not in PAID_PHASES or row.impl != impl:
            continue
        ratio = row.ratio
        if baseline == "roofline":
            ratio = None if row.roofline_pct is None else row.roofline_pct / 100
        if row.status != "measured" or ratio is None:
            raise CalibrationError(
                f"{row.problem} [{row.case}] {row.phase} against {baseline}: {row.status},"
                f" {row.reason or 'but no ratio to it'}"
            )
        try:
            threshold = threshold_file.from_reference(
                ratio, gpu=gpu, baseline=baseline, phase=row.phase
            )
        except ValueError as error:
            raise CalibrationError(f"{row.problem} [{row.case}]: {error}") from error
        merged[row.case] = (*merged.get(row.case, ()), threshold)
    # a case that is no longer timed keeps nothing
    return {case: thresholds for case, thresholds in merged.items() if thresholds}
