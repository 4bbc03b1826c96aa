"""What a scorecard can say, and what it cannot."""

from __future__ import annotations

import json
from typing import Any

import pydantic
import pytest

from grader import scorecard
from grader.scorecard import Check, PerformanceRow, ProblemResult, Scorecard, Status, Verdict

THRESHOLD: dict[str, Any] = {
    "baseline": "eager",
    "phase": "forward",
    "gpu": "NVIDIA H200",
    "anchors": ((1.0, 0.0), (2.0, 1.0)),
    "ratio": 1.5,
    "share": 0.5,
    "points": 1.0,
    "max_points": 2.0,
}
ROW: dict[str, Any] = {
    "problem": "gelu",
    "case": "N8-float32",
    "phase": "forward",
    "impl": "eager",
    "status": "measured",
    "n": 40,
    "median_ms": 0.25,
    "ratio": 1.5,
    "ci95": (1.49, 1.51),
    "thresholds": (THRESHOLD,),
}
TEST: dict[str, Any] = {
    "id": "forward[gelu-N8-float32]",
    "group": "forward",
    "case": "N8-float32",
    "verdict": "passed",
    "points": 3.0,
    "max_points": 3.0,
}
PROBLEM: dict[str, Any] = {
    "name": "gelu",
    "status": "graded",
    "score": 4.0,
    "max_score_measured": 5.0,
    "max_score": 8.0,
    "tests": (TEST,),
}
CARD: dict[str, Any] = {
    "status": "graded",
    "score": 4.0,
    "max_score_measured": 5.0,
    "max_score": 8.0,
    "submission": {"path": "assignment", "sha256": "0" * 64, "files": ("gelu.py",)},
    "assignment": {"problems": ("gelu",), "sha256": "1" * 64, "part": "public"},
    "grader": {"version": "0.1.0", "settings": {"warmup_calls": 12}},
    "environment": {
        "python": "3.11.7",
        "torch": "2.13.0",
        "triton": None,
        "numpy": "2.4.6",
        "platform": "Linux x86_64",
        "device": "cpu",
        "backend": "simulator",
    },
    "isolation": {"level": "practice", "in_force": (), "missing": ("Landlock",)},
    "problems": (PROBLEM,),
    "performance": (ROW,),
    "expected_tests": 1,
    "reported_tests": 1,
}


def changed(whole: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy of ``whole`` with ``changes``."""
    return {**whole, **changes}


def test_a_valid_card_survives_its_file() -> None:
    """What is written is what is read."""
    card = Scorecard.model_validate(CARD)

    assert Scorecard.model_validate_json(card.model_dump_json()) == card
    assert card.problems[0].tests[0].verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"score": 4.02}, "score 4.02, problems sum to 4.0", id="sum-of-problems"),
        pytest.param({"score": None}, "do not go together", id="graded-without-a-score"),
        pytest.param({"max_score_measured": None}, "max_score_measured None", id="no-maximum"),
        pytest.param({"status": "held"}, "status held and score 4.0", id="held-with-a-score"),
        pytest.param(
            {"status": "grader_error"}, "do not go together", id="grader-error-with-a-score"
        ),
        pytest.param({"max_score_measured": 3.9}, "score 4.0 of 3.9", id="more-than-measured"),
        pytest.param({"max_score": 4.5}, "5.0 measured of 4.5", id="measured-more-than-all"),
        pytest.param({"reported_tests": 0}, "0 of 1 tests reported", id="tests-missing"),
        pytest.param({"score": float("nan")}, "finite", id="nan"),
        pytest.param({"surprise": 1}, "Extra inputs", id="unknown-field"),
        pytest.param({"schema_version": 2}, "schema_version", id="another-schema"),
        pytest.param(
            {"problems": (changed(PROBLEM, score=4.5),), "score": 4.5},
            "gelu: score 4.5, parts sum to 4.0",
            id="sum-of-parts",
        ),
        pytest.param(
            {"performance": ()}, "gelu: score 4.0, parts sum to 3.0", id="performance-is-a-part"
        ),
    ],
)
def test_a_card_that_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    """Such a file can be neither written nor read."""
    with pytest.raises(pydantic.ValidationError, match=message):
        Scorecard.model_validate(changed(CARD, **changes))


def test_a_partial_card_may_lack_tests() -> None:
    """An interrupted run leaves a valid card."""
    card = Scorecard.model_validate(
        changed(CARD, status="partial", reason="Ctrl-C", expected_tests=9)
    )

    assert card.status is Status.PARTIAL


def test_a_held_problem_has_no_score_and_neither_has_its_card() -> None:
    """Others keep theirs in it."""
    held = changed(PROBLEM, name="silu", status="held", score=None, max_score_measured=None)
    card = Scorecard.model_validate(
        changed(
            CARD,
            status="held",
            score=None,
            max_score_measured=None,
            problems=(PROBLEM, held),
        )
    )

    assert [problem.score for problem in card.problems] == [4.0, None]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"points": 3.1}, "3.1 points of 3.0", id="more-than-its-points"),
        pytest.param(
            {"verdict": "wrong_value", "cause": "got 1"}, "earns no points", id="points-for-wrong"
        ),
        pytest.param({"cause": "got 1"}, "exactly if failed", id="passed-with-a-cause"),
        pytest.param(
            {"verdict": "crashed", "points": 0.0}, "exactly if failed", id="failed-without-cause"
        ),
        pytest.param({"verdict": "okay"}, "verdict", id="verdict-not-of-the-enum"),
        pytest.param({"group": "speed"}, "group", id="unknown-group"),
        pytest.param({"points": -1.0}, "greater than or equal", id="negative"),
    ],
)
def test_a_contradictory_test_is_refused(changes: dict[str, Any], message: str) -> None:
    """Only passed tests earn, and every other one says why."""
    with pytest.raises(pydantic.ValidationError, match=message):
        scorecard.TestResult.model_validate(changed(TEST, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"median_ms": None}, "measured, but median_ms is None", id="no-time"),
        pytest.param({"n": 0}, "measured without a timed call", id="no-call"),
        pytest.param({"status": "failed"}, "failed, but median_ms is 0.25", id="failed-with-time"),
        pytest.param(
            {"status": "not_measured", "median_ms": None}, "must say why", id="without-a-reason"
        ),
        pytest.param({"median_ms": 0.0}, "greater than 0", id="no-time-at-all"),
        pytest.param({"ratio": float("inf")}, "finite", id="infinite-ratio"),
        pytest.param(
            {"thresholds": (changed(THRESHOLD, points=2.5),)}, "pays 2.5 of 2.0", id="pays-too-much"
        ),
        pytest.param(
            {"thresholds": (changed(THRESHOLD, share=None),)},
            "not measured pays nothing",
            id="pays-without-a-share",
        ),
    ],
)
def test_a_contradictory_performance_row_is_refused(changes: dict[str, Any], message: str) -> None:
    """Measured rows have a time, others a reason."""
    with pytest.raises(pydantic.ValidationError, match=message):
        PerformanceRow.model_validate(changed(ROW, **changes))


@pytest.mark.parametrize(
    ("verdict", "cause"),
    [
        pytest.param(Verdict.PASSED, "but slowly", id="passed-with-a-cause"),
        pytest.param(Verdict.RACE, "", id="race-without-one"),
    ],
)
def test_a_check_explains_itself_exactly_if_not_passed(verdict: Verdict, cause: str) -> None:
    """Never an unexplained grade."""
    with pytest.raises(pydantic.ValidationError, match="say why"):
        Check(verdict=verdict, cause=cause)


def test_verdicts_are_ordered_by_precedence() -> None:
    """The grader's own fault first, passed last of those about the code."""
    order = list(Verdict)

    assert order[:2] == [Verdict.GRADER_ERROR, Verdict.INTEGRITY_HOLD]
    assert order.index(Verdict.WRONG_SHAPE) < order.index(Verdict.WRONG_VALUE)
    assert order.index(Verdict.EXCESS_TRAFFIC) + 1 == order.index(Verdict.PASSED)


def test_results_cannot_be_changed() -> None:
    """A grade is not edited in place."""
    problem = ProblemResult.model_validate(PROBLEM)
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        problem.score = 8.0


def test_the_schema_is_json() -> None:
    """Other programs can check the file."""
    schema = json.loads(json.dumps(Scorecard.model_json_schema()))

    assert schema["additionalProperties"] is False
    assert set(CARD) <= set(schema["properties"])
