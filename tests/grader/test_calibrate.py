"""grader.calibrate: thresholds from a measured card of the reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.calibrate import CalibrationError, calibrate
from grader.measure import threshold_file
from grader.scorecard import Scorecard
from grader.spec import Threshold

DATA = Path(__file__).resolve().parent.parent / "data"


@pytest.fixture
def card() -> Scorecard:
    """The reference on an H200."""
    return Scorecard.model_validate_json((DATA / "scorecard-h200.json").read_bytes())


@pytest.fixture
def reference(tmp_path: Path, card: Scorecard) -> Path:
    """Problem folders without thresholds."""
    for problem in card.assignment.problems:
        (tmp_path / problem).mkdir()
    return tmp_path


def test_the_reference_has_ten_percent_to_spare(card: Scorecard, reference: Path) -> None:
    """All points at 1/1.10 of the reference's ratio, one threshold per case and paid phase."""
    written = calibrate(card, "eager", reference)

    assert [path.parent.name for path in written] == list(card.assignment.problems)
    thresholds = threshold_file.load(reference / "vector_add" / "thresholds.json")
    (row,) = [
        row
        for row in card.performance
        if (row.problem, row.case, row.impl) == ("vector_add", "n134217728-float32", "eager")
    ]
    (threshold,) = thresholds[row.case]
    assert row.ratio is not None
    assert threshold.gpu == "NVIDIA H200"
    assert threshold.anchors[-1][1] == 1.0
    assert threshold.anchors[-1][0] == pytest.approx(row.ratio / 1.1, rel=0.01)
    assert threshold.anchors[-1][0] <= row.ratio / 1.1


def test_thresholds_of_other_gpus_stay(card: Scorecard, reference: Path) -> None:
    """Calibrating again replaces this GPU's thresholds and leaves the others'."""
    path = reference / "vector_add" / "thresholds.json"
    other = Threshold("Other GPU", "eager", "forward", ((0.5, 0.0), (1.0, 1.0)))
    threshold_file.dump({"n134217728-float32": (other,)}, path)

    calibrate(card, "eager", reference)
    calibrate(card, "compile", reference)

    found = threshold_file.load(path)["n134217728-float32"]
    assert sorted((t.gpu, t.baseline) for t in found) == [
        ("NVIDIA H200", "compile"),
        ("Other GPU", "eager"),
    ]


def test_a_card_without_speed_is_refused(card: Scorecard, reference: Path) -> None:
    """A card of a machine without a GPU has nothing to calibrate from."""
    environment = card.environment.model_copy(update={"gpu": None, "device": "cpu"})

    with pytest.raises(CalibrationError, match="without a GPU"):
        calibrate(card.model_copy(update={"environment": environment}), "eager", reference)


def test_a_card_of_something_else_is_refused(reference: Path) -> None:
    """Only a submission that passes everything can be the reference."""
    slowed = Scorecard.model_validate_json((DATA / "scorecard-h200-slowed.json").read_bytes())

    with pytest.raises(CalibrationError, match="did not pass"):
        calibrate(slowed, "eager", reference)


def test_nothing_is_written_when_a_later_problem_is_refused(
    card: Scorecard, reference: Path
) -> None:
    """Either all files are new or none: a course never has half a calibration."""
    rows = tuple(
        row.model_copy(update={"status": "unstable", "reason": "noise"})
        if row.problem == card.assignment.problems[-1]
        else row
        for row in card.performance
    )

    with pytest.raises(CalibrationError, match="unstable"):
        calibrate(card.model_copy(update={"performance": rows}), "eager", reference)

    assert not list(reference.glob("*/thresholds.json"))
