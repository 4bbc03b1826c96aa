"""Scenarios: problems judged by what their scenario.py saw; grader.scenarios and grader.checks.scenario."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from grader.grading import Request, opened
from grader.scenarios import flat, has_form, is_number, plain, rounds, shown
from grader.scorecard import Check, Verdict

PROBLEM = '''
"""Twice a number, through a scenario."""

from pydantic import BaseModel

from grader.spec import scenario, scenario_case
from grader.scenarios import Mistake, shown


class Log(BaseModel):
    returned: object
    case: str


def make_inputs(case, rng):
    return {"n": case.scalars["n"]}


def judge(case, arguments, log):
    seen = Log.model_validate(log)
    if seen.case != case.id or seen.returned != 2 * arguments["n"]:
        return Mistake(f"got {shown(seen.returned)}, want {2 * arguments['n']}", ("twice is plus",))
    return None


PROBLEM = scenario(
    name="twice",
    points=4,
    cases=(
        scenario_case("three", why="an odd number", scalars={"n": 3}, timeout_s=5),
        scenario_case("gpu-only", why="needs a GPU", scalars={"n": 4}, timeout_s=5),
    ),
    make_inputs=make_inputs,
    judge=judge,
    not_checkable=lambda case, device: (
        "needs a GPU" if case.id == "gpu-only" and device == "cpu" else ""
    ),
)
'''
SCENARIO = """
ENTRIES = ("twice",)


def run(submission, case, arguments):
    return {"returned": submission.twice(arguments["n"]), "case": case}
"""

Judged: TypeAlias = "Callable[[str], dict[str, Check]]"


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A reference folder with one scenario."""
    folder = tmp_path / "reference" / "twice"
    folder.mkdir(parents=True)
    (folder / "problem.py").write_text(PROBLEM)
    (folder / "scenario.py").write_text(SCENARIO)
    return folder.parent


@pytest.fixture
def judged(course: Path) -> Judged:
    """Grades the text of a submission; checks by case id."""

    def judge(text: str) -> dict[str, Check]:
        file = course.parent / "twice.py"
        file.write_text(text)
        with opened(Request(file, ("twice",), device="cpu", seed=1, reference=course)) as grading:
            return {trial.case.id: grading.judge(trial) for trial in grading.trials()}

    return judge


def test_right_answer_passes_and_what_cannot_be_checked_says_so(judged: Judged) -> None:
    """The case that needs a GPU is neither passed nor failed without one."""
    checks = judged("def twice(n):\n    return n + n\n")

    assert checks["three"].verdict is Verdict.PASSED
    assert checks["gpu-only"].verdict is Verdict.NOT_CHECKABLE
    assert "needs a GPU" in checks["gpu-only"].cause


@pytest.mark.parametrize(
    ("text", "verdict", "said"),
    [
        (
            "def twice(n):\n    return n * n\n",
            Verdict.WRONG_VALUE,
            "got 9, want 6\n  twice is plus",
        ),
        ("def twice(n):\n    return object\n", Verdict.WRONG_VALUE, "got a type: <class 'object'>"),
        (
            "def twice(n):\n    raise NotImplementedError('TODO')\n",
            Verdict.NOT_IMPLEMENTED,
            "not implemented yet",
        ),
        (
            "def thrice(n):\n    return n\n",
            Verdict.IMPORT_ERROR,
            "twice.py defines no function twice",
        ),
        ("def twice(n):\n    return 1 / 0\n", Verdict.CRASHED, "ZeroDivisionError"),
        ("def twice(n):\n    return ['x' * 999] * 999\n", Verdict.CRASHED, "bytes to tell"),
        (
            "import sys\ndef twice(n):\n    sys.modules['scenario'].run = lambda *_: {'case': []}\n",
            Verdict.WRONG_VALUE,
            "got None",
        ),
        (
            "def twice(n):\n    import os\n    os._exit(0)\n",
            Verdict.CRASHED,
            "ended the process: exit 0",
        ),
        ("def twice(n):\n    while True: pass\n", Verdict.TIMEOUT, "took over 5 s"),
    ],
    ids=["wrong", "foreign", "stub", "missing", "raises", "endless", "forges", "exits", "hangs"],
)
def test_every_other_end_is_a_verdict(
    judged: Judged, text: str, verdict: Verdict, said: str
) -> None:
    """However student code ends, the check says how."""
    check = judged(text)["three"]

    assert check.verdict is verdict
    assert said in check.cause
    assert "this case checks: an odd number" in check.cause


def test_a_forged_log_is_no_fault_of_the_grader(course: Path, judged: Judged) -> None:
    """A log of another form, which only a forger's process sends, is a protocol error."""
    (course / "twice" / "scenario.py").write_text(SCENARIO.replace('"case": case', '"case": [1]'))

    check = judged("def twice(n):\n    return n + n\n")["three"]

    assert check.verdict is Verdict.PROTOCOL_ERROR
    assert "case: Input should be a valid string" in check.cause


def test_plain_values_stay_and_others_are_told() -> None:
    """What JSON carries comes through; NaN, infinity, objects and odd keys become text."""
    assert plain({"a": [1, 2.5, "x", None, True]}) == {"a": [1, 2.5, "x", None, True]}
    assert plain((1, (2,))) == [1, [2]]
    assert plain(float("inf")) == {"type": "float", "text": "inf"}
    assert plain({1: 2}) == {"type": "dict", "text": "{1: 2}"}
    assert plain(1 + 2j) == {"type": "complex", "text": "(1+2j)"}


def test_plain_ends_on_a_list_that_holds_itself() -> None:
    """Depth is limited, so nothing a student returns takes the worker down."""
    endless: list[object] = []
    endless.append(endless)

    assert "[...]" in str(plain(endless))


FORM = {"calls": [{"n": int, "share": {float, type(None)}}], "said": str, "other": object}


@pytest.mark.parametrize(
    ("log", "want"),
    [
        ({"calls": [], "said": "", "other": [{}]}, True),
        (
            {"calls": [{"n": 1, "share": None}, {"n": 2, "share": 0.5}], "said": "", "other": 1},
            True,
        ),
        ({"calls": [{"n": 1, "share": 1}], "said": "", "other": 1}, False),
        ({"calls": [{"n": True, "share": None}], "said": "", "other": 1}, False),
        ({"calls": [{"n": 1}], "said": "", "other": 1}, False),
        ({"calls": {}, "said": "", "other": 1}, False),
        ({"calls": [[]], "said": "", "other": 1}, False),
        ({"calls": [], "said": ["x"], "other": 1}, False),
        ({"calls": [], "said": "", "other": 1, "more": 1}, False),
        ([], False),
        (None, False),
    ],
)
def test_a_log_has_the_form_or_not(log: object, want: bool) -> None:
    """Keys and types must be those of the form, to the depth that it tells."""
    assert has_form(log, FORM) is want


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ([["a", 1], ["b", 2]], True),
        ([], True),
        ([["a"]], False),
        ([["a", 1, 2]], False),
        ([["a", "b"]], False),
        ([("a", 1)], False),
        (["a1"], False),
    ],
)
def test_a_tuple_of_forms_is_a_list_of_as_many(value: object, want: bool) -> None:
    """Item by item; JSON has no tuples."""
    assert has_form(value, [(str, int)]) is want


def test_arguments_of_several_calls_come_back() -> None:
    """In their order, lists of more than ten items too; two calls keep theirs apart."""
    calls = [{"at": [*range(20, 0, -1)], "n": 3}, {"n": 4.5, "at": [7], "fused": True}]
    names = flat(*calls)

    assert names["0.at.10"] == 10
    assert not any(isinstance(value, list) for value in names.values())
    assert rounds(names) == calls


def test_shown_tells_a_value_as_a_student_would() -> None:
    """Plain values as Python writes them, others with their type."""
    assert shown(3) == "3"
    assert shown("red") == "'red'"
    assert shown(plain(float("nan"))) == "nan"
    assert shown(plain(1j)) == "a complex: 1j"


def test_only_finite_numbers_are_numbers() -> None:
    """True is no number, nor is text."""
    assert is_number(3)
    assert is_number(0.5)
    assert not is_number(True)
    assert not is_number("3")
    assert not is_number(plain(float("nan")))


@pytest.mark.parametrize("value", [1e300, -1e300, 10**400, -(10**400), float("inf"), float("nan")])
def test_what_arithmetic_cannot_take_is_no_number(value: float) -> None:
    """Only a forger's log holds it; half as much is a number, and still is one in nanoseconds."""
    assert not is_number(value)
    assert is_number(0.5e300)
    assert is_number(10**299)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (10**299, 10**299),
        (10**400, {"type": "int", "text": str(10**400)}),
        (-(1 << 20_000), {"type": "int", "text": "an int of 20001 bits"}),
    ],
    ids=["number", "large", "larger-than-python-writes"],
)
def test_an_int_that_no_float_holds_is_told_as_text(value: int, told: object) -> None:
    """Neither JSON nor a message can carry each of them."""
    assert plain(value) == told
    assert json.loads(json.dumps(plain(value))) == told


def test_a_list_of_lists_without_end_is_told() -> None:
    """Deeper than Python follows it is text; a few levels are a list."""
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    told = plain(deep)
    for _ in range(8):
        (told,) = told

    assert told == {"type": "list", "text": "nested too deep to be shown"}
    assert plain([[[1]]]) == [[[1]]]
