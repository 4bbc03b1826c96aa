"""grader.card_file: a card is read, and what is none is refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grader.card_file import load

CARD = Path(__file__).resolve().parent.parent / "data" / "scorecard-h200.json"


def test_a_card_is_read() -> None:
    """One that a grading wrote."""
    assert load(CARD).environment.gpu == "NVIDIA H200"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param(
            {"schema_version": 99},
            "made by a newer grader (schema 99, this one reads 1)",
            id="newer",
        ),
        pytest.param(
            {"schema_version": 0},
            "made by another grader (schema 0, this one reads 1)",
            id="older",
        ),
        pytest.param({"schema_version": "x" * 999}, "another grader (schema 'xxx", id="text"),
        pytest.param({"expected_tests": -1}, "no valid scorecard: expected_tests: ", id="negative"),
        pytest.param({"surprise": 1}, "no valid scorecard: surprise: ", id="unknown-field"),
        pytest.param({"score": 0.0}, "no valid scorecard: score 0.0, problems sum to", id="sums"),
    ],
)
def test_a_card_of_another_form_is_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    """In one short line that says which schema, or which field."""
    path = tmp_path / "scorecard.json"
    path.write_text(json.dumps(json.loads(CARD.read_bytes()) | changes))

    with pytest.raises(ValueError, match=r"grader|scorecard") as raised:
        load(path)

    said = str(raised.value)
    assert words in said
    assert "pydantic" not in said
    assert len(said.splitlines()) == 1
    assert len(said) < 200


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="empty-object"),
        pytest.param(b"[1]", id="list"),
        pytest.param(b"| problem | case |\n", id="markdown"),
        pytest.param(b"\xff\xfe", id="not-utf-8"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(CARD.read_bytes()[:-100], id="cut"),
    ],
)
def test_what_is_no_card_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    """Whatever the file holds."""
    path = tmp_path / "scorecard.json"
    path.write_bytes(content)

    with pytest.raises(ValueError, match=r"^this is no scorecard; `python -m grader grade`"):
        load(path)
