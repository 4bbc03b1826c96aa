"""The table of speeds: from a card measured on a GPU, and from one that holds none."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.report.markdown import speeds
from grader.scorecard import Scorecard

CARD = Path(__file__).resolve().parent.parent / "data" / "scorecard-h200.json"


@pytest.fixture
def card() -> Scorecard:
    """The reference on an H200."""
    return Scorecard.model_validate_json(CARD.read_bytes())


def test_one_line_for_each_case_and_phase(card: Scorecard) -> None:
    """The machine, the heads, and of each test the time and the ratios, "-" where there is none."""
    own = [row for row in card.performance if row.impl == "submission"]

    lines = speeds(card).splitlines()

    assert lines[0].startswith("NVIDIA H200, driver ")
    assert len(lines) == 4 + len(own)
    (row,) = [
        r
        for r in own
        if (r.problem, r.phase, r.case[-8:]) == ("matmul_relu", "forward", "bfloat16")
    ]
    (line,) = [text for text in lines if text.startswith(f"| matmul_relu | {row.case} | forward |")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[3] == f"{row.median_ms:.3f}"
    assert cells[5] == "-"
    assert cells[8] == f"{row.n_verified} of {row.n}"


def test_what_was_not_measured_is_left_out(card: Scorecard) -> None:
    """A phase of which only a baseline has a time has no line; no line at all is an error."""
    rows = [row for row in card.performance if row.impl != "submission"]

    with pytest.raises(ValueError, match="no time was measured"):
        speeds(card.model_copy(update={"performance": tuple(rows)}))


def test_an_unstable_time_says_so(card: Scorecard) -> None:
    """Beside the time."""
    rows = tuple(row.model_copy(update={"status": "unstable"}) for row in card.performance)

    assert "(unstable)" in speeds(card.model_copy(update={"performance": rows}))


def test_control_characters_are_escaped(card: Scorecard) -> None:
    """A card from elsewhere must not clear the screen; a name without any stays as it is."""
    environment = card.environment.model_copy(update={"gpu": "GPU \x1b[2J \u202e"})

    told = speeds(card.model_copy(update={"environment": environment}))

    assert told.startswith("GPU \\x1b[2J \\u202e, driver")
    assert "\x1b" not in told
    assert "\\" not in speeds(card)
