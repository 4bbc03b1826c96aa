"""The file thresholds.json beside a problem, and thresholds made from the reference's ratio.

Pays nothing: ``grader.thresholds`` does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from pydantic import RootModel, ValidationError

from grader.card_file import first_error
from grader.measure.constants import PAID_PHASES, SPARE, ZERO_SHARE_AT
from grader.measure.implementations import impls_of
from grader.scorecard import Record
from grader.spec import Baseline, Phase, Problem, Threshold

ByCase: TypeAlias = Mapping[str, tuple[Threshold, ...]]
"""Id of the benchmark case to its thresholds, on all GPUs."""

# finer than the noise of any ratio above 0.02
_DIGITS = 4


class _Threshold(Record):
    gpu: str
    baseline: Baseline
    phase: Phase
    anchors: tuple[tuple[float, float], ...]


class _File(RootModel[dict[str, tuple[_Threshold, ...]]]):
    pass


def load(path: Path) -> dict[str, tuple[Threshold, ...]]:
    """Read a thresholds.json.

    Raises:
        ValueError: If it is malformed or cannot be read; the message names the file and the place.
    """
    try:
        file = _File.model_validate_json(path.read_bytes())
        return {
            case: tuple(Threshold(**dict(threshold)) for threshold in thresholds)
            for case, thresholds in file.root.items()
        }
    except (OSError, ValueError) as error:
        said = str(error)
        if isinstance(error, OSError):
            said = error.strerror or said
        elif isinstance(error, ValidationError):
            said = first_error(error)
        raise ValueError(f"{path}: {said}. `grader calibrate` writes this file") from error


def dump(by_case: ByCase, path: Path) -> None:
    """Write a thresholds.json, in an order that depends on the contents only."""
    dump_all({path: by_case})


def dump_all(files: Mapping[Path, ByCase]) -> None:
    """Write several, each beside its place first: a full disk leaves all of them as they were.

    Raises:
        OSError: If one cannot be written; names that one.
    """
    asides = {path: path.with_name(f".{path.name}-new") for path in files}
    path = Path()
    try:
        for path, aside in asides.items():
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            aside.write_text(_text(files[path]), encoding="utf-8")
        for path, aside in asides.items():
            aside.replace(path)
    except OSError as error:
        # of the file that is wanted, which a failed write does not name at all
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        for aside in asides.values():
            with contextlib.suppress(OSError):
                aside.unlink()


def _text(by_case: ByCase) -> str:
    file = _File(
        {
            case: tuple(
                _Threshold(**dataclasses.asdict(threshold))
                for threshold in sorted(by_case[case], key=lambda t: (t.gpu, t.phase, t.baseline))
            )
            for case in sorted(by_case)
        }
    )
    return file.model_dump_json(indent=2) + "\n"


def with_thresholds(problem: Problem, by_case: ByCase) -> Problem:
    """Give the problem with these thresholds in place of its own.

    Raises:
        ValueError: If a threshold could never be paid: its case, phase or baseline does not exist,
            or its phase is only reported.
    """
    ids = {case.id for case in problem.benchmark_cases}
    if strangers := sorted(set(by_case) - ids):
        raise ValueError(
            f"{problem.name}: thresholds for {', '.join(strangers)}, but the benchmark cases are"
            f" {', '.join(sorted(ids)) or 'none'}"
        )
    merged = dataclasses.replace(
        problem,
        benchmark_cases=tuple(
            dataclasses.replace(case, thresholds=by_case.get(case.id, ()))
            for case in problem.benchmark_cases
        ),
    )
    check(merged)
    return merged


def check(problem: Problem) -> None:
    """Raise ValueError if a threshold of the problem could never be paid, or is there twice."""
    for case in problem.benchmark_cases:
        seen: set[tuple[str, str, str]] = set()
        for threshold in case.thresholds:
            where = f"{problem.name} [{case.id}]: threshold against {threshold.baseline}"
            if threshold.phase not in case.phases or threshold.phase not in PAID_PHASES:
                raise ValueError(f"{where}: phase {threshold.phase!r} is not timed, or not paid")
            if threshold.baseline not in {"roofline", *impls_of(problem)}:
                raise ValueError(f"{where}: the problem has no such baseline")
            key = (threshold.gpu, threshold.baseline, threshold.phase)
            if key in seen:
                raise ValueError(f"{where}: twice for {threshold.gpu}, phase {threshold.phase}")
            seen.add(key)


def from_reference(ratio: float, *, gpu: str, baseline: Baseline, phase: Phase) -> Threshold:
    """Make the threshold at which the reference has 10 % to spare.

    Full share from ratio / 1.10 on, none below 0.35 of ratio; both rounded down, so never harder.
    Anchors for a reference ratio of 1.1: 1.0 pays all, 0.55 (twice as slow) pays 27 %, 0.385
    nothing. A ratio 1 % lower loses at most 1.8 %.

    Raises:
        ValueError: If the ratio is not positive, or too small for four decimals.
    """
    scale = 10**_DIGITS
    none, full = (int(r * scale) / scale for r in (ratio * ZERO_SHARE_AT, ratio / SPARE))
    if not 0 < none < full:
        raise ValueError(f"{gpu}, {baseline}, {phase}: no thresholds from a ratio of {ratio}")
    return Threshold(gpu=gpu, baseline=baseline, phase=phase, anchors=((none, 0.0), (full, 1.0)))
