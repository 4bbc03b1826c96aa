"""What was measured on an H200: the staff solutions earn everything, slowed copies do not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console

from grader.measure.constants import MIN_PAIRS
from grader.report.terminal import print_card
from grader.scorecard import Scorecard, Status, ThresholdResult, Verdict

DATA = Path(__file__).resolve().parent.parent / "data"


def card(name: str) -> Scorecard:
    """A card of tests/data."""
    return Scorecard.model_validate_json((DATA / name).read_bytes())


def paid(of: Scorecard, problem: str) -> list[ThresholdResult]:
    """Everything that paid for the speed of one problem."""
    return [t for row in of.performance if row.problem == problem for t in row.thresholds]


def test_the_reference_earns_everything_on_a_gpu() -> None:
    """With real Triton all 48 points can be measured, and the staff solutions earn them."""
    reference = card("scorecard-h200.json")

    assert reference.status is Status.GRADED
    assert (reference.environment.backend, reference.environment.gpu) == ("triton", "NVIDIA H200")
    assert (reference.score, reference.max_score_measured, reference.max_score) == (48, 48, 48)


def test_what_lost_points_on_a_gpu_was_flash_attention_alone() -> None:
    """Before it compiled with Triton 3.6: the others keep theirs, and its speed is not measured."""
    first = card("scorecard-h200-first.json")

    assert first.status is Status.GRADED
    short = [p.name for p in first.problems if p.score != p.max_score_measured]
    assert short == ["flash_attention"]
    rows = [row for row in first.performance if row.problem == "flash_attention"]
    assert rows
    assert {row.status for row in rows} == {"not_measured"}


@pytest.mark.parametrize("name", ["scorecard-h200.json", "scorecard-h200-slowed.json"])
def test_every_paid_row_is_measured_and_verified(name: str) -> None:
    """A row that pays points has enough pairs, a ratio inside its interval, verified outputs."""
    rows = [row for row in card(name).performance if row.thresholds]

    assert len(rows) == 18
    for row in rows:
        assert row.n >= MIN_PAIRS
        assert row.n_verified > 0
        assert row.ratio is not None
        assert row.ci95 is not None
        assert row.ci95[0] <= row.ratio <= row.ci95[1]


def test_slowed_copies_lose_points_for_speed_alone() -> None:
    """Doing the work twice is right in every value; it costs speed and traffic in every problem."""
    reference, slowed = card("scorecard-h200.json"), card("scorecard-h200-slowed.json")

    for problem in slowed.assignment.problems:
        before = sum(t.points for t in paid(reference, problem))
        after = sum(t.points for t in paid(slowed, problem))
        assert after < before / 3
    verdicts = {test.verdict for p in slowed.problems for test in p.tests}
    assert verdicts == {Verdict.PASSED, Verdict.EXCESS_TRAFFIC}


@pytest.mark.parametrize("name", ["scorecard-h200.json", "scorecard-h200-slowed.json"])
def test_a_card_names_no_place_and_nobody(name: str) -> None:
    """Paths are relative; no home, host or user gets into a card."""
    text = (DATA / name).read_text(encoding="utf-8")

    assert not re.search(r'"/|/home/|/root|/tmp|/work', text)


def test_a_card_with_speed_is_printed_whole() -> None:
    """The terminal shows the points, a ratio with its interval, and the GPU."""
    console = Console(width=120, record=True, color_system=None)

    print_card(card("scorecard-h200.json"), console)

    said = console.export_text()
    assert "48.00 of 48.00 measured here, 48 in all" in said
    assert "NVIDIA H200" in said
    assert re.search(r"\d\.\d+x", said)
