"""grader.calibrate: thresholds from a measured card of the reference."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grader import discover
from grader.__main__ import app
from grader.calibrate import CalibrationError, calibrate, check_cases, only
from grader.exits import USAGE
from grader.measure import threshold_file
from grader.scorecard import Scorecard, Verdict
from grader.spec import Baseline, Threshold

EAGER: Mapping[str, Baseline] = dict.fromkeys(
    ("vector_add", "gelu", "softmax", "rmsnorm", "matmul_relu"), "eager"
)
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
    written = calibrate(card, EAGER, reference)

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


def test_a_problem_without_speed_does_not_hinder(card: Scorecard, reference: Path) -> None:
    """A scenario has cases for machines of another kind, and no thresholds."""
    first, *others = card.problems
    test = first.tests[0].model_copy(update={"verdict": Verdict.NOT_CHECKABLE, "cause": "no GPU"})
    scenario = first.model_copy(update={"name": "scenario", "tests": (test,)})
    with_scenario = card.model_copy(update={"problems": (scenario, *card.problems)})
    unchecked = first.model_copy(update={"tests": (test, *first.tests[1:])})

    assert len(calibrate(with_scenario, EAGER, reference)) == len(card.problems)
    with pytest.raises(CalibrationError, match="did not pass"):
        calibrate(card.model_copy(update={"problems": (unchecked, *others)}), EAGER, reference)


def test_only_the_problems_asked_for(card: Scorecard, reference: Path) -> None:
    """One that failed hinders itself alone; one that the card does not hold is an error."""
    broken, *others = card.problems
    failed = broken.tests[0].model_copy(update={"verdict": Verdict.CRASHED, "cause": "it crashed"})
    card = card.model_copy(
        update={
            "problems": (broken.model_copy(update={"tests": (failed, *broken.tests[1:])}), *others)
        }
    )

    written = calibrate(only(card, [others[0].name]), EAGER, reference)

    assert [path.parent.name for path in written] == [others[0].name]
    with pytest.raises(CalibrationError, match="did not pass"):
        calibrate(only(card, [broken.name]), EAGER, reference)
    with pytest.raises(CalibrationError, match="holds no flash_attention"):
        only(card, ["flash_attention"])


def test_each_problem_is_paid_against_its_own_baseline(card: Scorecard, reference: Path) -> None:
    """The roofline's share is the submission's: 102.4 % of it leaves 0.93 to be reached."""
    calibrate(card, {**EAGER, "vector_add": "roofline", "softmax": "builtin"}, reference)

    (threshold,) = threshold_file.load(reference / "vector_add" / "thresholds.json")[
        "n134217728-float32"
    ]
    assert threshold.baseline == "roofline"
    assert threshold.anchors[-1][0] == pytest.approx(1.024 / 1.1, rel=0.001)
    softmax = threshold_file.load(reference / "softmax" / "thresholds.json")
    assert {t.baseline for case in softmax.values() for t in case} == {"builtin"}


def test_a_case_no_longer_timed_loses_its_thresholds(card: Scorecard, reference: Path) -> None:
    """Otherwise the problem would not load: a threshold without a case is an error."""
    path = reference / "vector_add" / "thresholds.json"
    gone = Threshold("NVIDIA H200", "eager", "forward", ((0.5, 0.0), (1.0, 1.0)))
    threshold_file.dump({"n1-float32": (gone,)}, path)

    calibrate(card, EAGER, reference)

    assert "n1-float32" not in threshold_file.load(path)


def test_thresholds_of_other_gpus_stay(card: Scorecard, reference: Path) -> None:
    """Calibrating again replaces this GPU's thresholds and leaves the others'."""
    path = reference / "vector_add" / "thresholds.json"
    other = Threshold("Other GPU", "eager", "forward", ((0.5, 0.0), (1.0, 1.0)))
    threshold_file.dump({"n134217728-float32": (other,)}, path)

    calibrate(card, EAGER, reference)
    calibrate(card, dict.fromkeys(EAGER, "compile"), reference)

    found = threshold_file.load(path)["n134217728-float32"]
    assert sorted((t.gpu, t.baseline) for t in found) == [
        ("NVIDIA H200", "compile"),
        ("Other GPU", "eager"),
    ]


def test_a_card_without_speed_is_refused(card: Scorecard, reference: Path) -> None:
    """A card of a machine without a GPU has nothing to calibrate from."""
    environment = card.environment.model_copy(update={"gpu": None, "device": "cpu"})

    with pytest.raises(CalibrationError, match="without a GPU"):
        calibrate(card.model_copy(update={"environment": environment}), EAGER, reference)


def test_a_card_of_something_else_is_refused(reference: Path) -> None:
    """Only a submission that passes everything can be the reference."""
    slowed = Scorecard.model_validate_json((DATA / "scorecard-h200-slowed.json").read_bytes())

    with pytest.raises(CalibrationError, match="did not pass"):
        calibrate(slowed, EAGER, reference)


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
        calibrate(card.model_copy(update={"performance": rows}), EAGER, reference)

    assert not list(reference.glob("*/thresholds.json"))


def test_a_case_that_the_problem_does_not_have_is_refused(card: Scorecard) -> None:
    """A threshold for it would keep the problem from loading; a case that is missing does no harm."""
    problem = discover.load_problem("gelu")
    own = [case.id for case in problem.benchmark_cases]
    (row, *_) = [row for row in card.performance if row.problem == "gelu"]
    known, strange = (row.model_copy(update={"case": case}) for case in (own[0], "N1-\x1b[31m"))

    check_cases(card.model_copy(update={"performance": (known,)}), [problem])
    with pytest.raises(CalibrationError, match=r"gelu has no benchmark case 'N1-.x1b.*only M"):
        check_cases(card.model_copy(update={"performance": (known, strange)}), [problem])
    # of a problem that was not asked for
    other = strange.model_copy(update={"problem": "silu"})
    check_cases(card.model_copy(update={"performance": (known, other)}), [problem])


def test_a_ratio_that_is_none_names_its_row(card: Scorecard, reference: Path) -> None:
    """The card is wrong then, and nothing is written."""
    rows = tuple(
        row if row.ratio is None else row.model_copy(update={"ratio": -1.0})
        for row in card.performance
    )

    with pytest.raises(CalibrationError, match=r"vector_add \[n\d+-.*\]: .* a ratio of -1"):
        calibrate(card.model_copy(update={"performance": rows}), EAGER, reference)
    assert not contents(reference)


def contents(reference: Path) -> dict[Path, str]:
    """All files below a folder of problems."""
    return {path: path.read_text() for path in reference.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["thresholds.json", ".thresholds.json-new"])
def test_nothing_is_written_when_one_file_cannot_be(
    card: Scorecard, reference: Path, name: str
) -> None:
    """The last of five: the error names its thresholds.json, and the others stay as they were."""
    calibrate(card, EAGER, reference)
    last = reference / card.problems[-1].name
    (last / "thresholds.json").unlink()
    before = contents(reference)
    (last / name).mkdir()

    with pytest.raises((ValueError, OSError), match=r"thresholds\.json.*") as raised:
        calibrate(card, dict.fromkeys(EAGER, "compile"), reference)

    assert str(last / "thresholds.json") in str(raised.value)
    assert contents(reference) == before
    (last / name).rmdir()
    calibrate(card, dict.fromkeys(EAGER, "compile"), reference)
    after = contents(reference)
    assert {path.name for path in after} == {"thresholds.json"}
    assert all(after[path] != text for path, text in before.items())


@pytest.mark.parametrize("command", ["calibrate", "speeds"])
def test_the_commands_name_the_card_and_what_it_is(tmp_path: Path, command: str) -> None:
    """One line and exit code 2; no card at all is as plain."""
    path = tmp_path / "card.json"
    path.write_text('{"schema_version": 99}')

    newer = CliRunner().invoke(app, [command, str(path)])
    missing = CliRunner().invoke(app, [command, str(tmp_path / "none.json")])

    assert (newer.exit_code, missing.exit_code) == (USAGE, USAGE)
    assert newer.output.startswith(f"error: {path}: made by a newer grader (schema 99")
    assert len(newer.output.splitlines()) == len(missing.output.splitlines()) == 1
    assert f"{tmp_path / 'none.json'}: No such file or directory" in missing.output


def test_calibrate_blames_the_file_that_it_cannot_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the card, which it has read."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "reference/gelu/thresholds.json")

    monkeypatch.setattr(threshold_file, "dump_all", full)

    ended = CliRunner().invoke(app, ["calibrate", str(DATA / "scorecard-h200.json")])

    assert ended.exit_code == USAGE
    assert ended.output == (
        "error: reference/gelu/thresholds.json cannot be written: No space left on device\n"
    )
