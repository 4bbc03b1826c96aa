"""Every scenario's judge beside forged logs: right ones of the staff solution, with any part changed."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from pydantic import ValidationError

from grader import discover
from grader.grading import Request, opened
from grader.sandbox.client import Student
from grader.scenarios import Log
from grader.scorecard import Verdict
from grader.spec import Case, Inputs

SCENARIOS = [
    name
    for name in discover.problem_names()
    if discover.load_problem(name, discover.REFERENCE).kind == "scenario"
]
SEED = 1
N_CHANGED = 2000  # logs of each problem
ODD: list[Any] = [
    *(None, True, False, 0, -1, 3, 10**400, 0.0, -0.5, 1e299, 1e308, float("inf"), float("nan")),
    *("", "run", "aten::mm", "nan", [], [[]], [1, 2, 3], ["x", [1, 2.0, 3.0], None], {}, {"a": 1}),
    {"type": "float", "text": "nan"},
]

Seen = tuple[Case, Inputs, Log]


def seen_of(problem: str, monkeypatch: pytest.MonkeyPatch) -> list[Seen]:
    """The logs that the staff solution's process sends, of all cases that this machine can check."""
    seen: list[Seen] = []
    real = Student.scenario

    def scenario(self: Student, case: Case, arguments: Inputs) -> Log:
        log = real(self, case, arguments)
        seen.append((case, arguments, log))
        return log

    monkeypatch.setattr(Student, "scenario", scenario)
    solution = discover.REFERENCE / problem / "solution.py"
    with opened(Request(solution, (problem,), device="cpu", seed=SEED)) as grading:
        for trial in grading.trials():
            assert grading.judge(trial).verdict in {Verdict.PASSED, Verdict.NOT_CHECKABLE}
    return seen


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every list and dict within a log, each with every key."""
    keys = range(len(value)) if isinstance(value, list) else value
    if not isinstance(value, list | dict):
        return []
    within = [place for key in keys for place in places(value[key])]
    return [*((value, key) for key in keys), *within]


def change(log: Log, rng: random.Random) -> None:
    """Put something else, or of the same kind, in one place; take it away; or have it twice."""
    # the outermost more often than by chance, since most places lie in the longest list
    found = places(log)
    if not found:
        return
    inside, key = rng.choice([rng.choice(found), rng.choice(found[: len(log)])])
    how = rng.random()
    if how < 0.15:
        del inside[key]
    elif how < 0.3 and isinstance(inside, list):
        inside.insert(key, copy.deepcopy(inside[key]))
    elif how < 0.6:
        alike = [odd for odd in ODD if type(odd) is type(inside[key])]
        inside[key] = copy.deepcopy(rng.choice(alike or ODD))
    else:
        inside[key] = copy.deepcopy(rng.choice(ODD))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_no_forged_log_is_a_fault_of_the_grader(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge gives a verdict, or refuses the form of the log; it never raises."""
    judge = discover.load_problem(name, discover.REFERENCE).judge
    assert judge is not None
    seen = seen_of(name, monkeypatch)
    if not seen:
        pytest.skip(f"nothing of {name} can be checked here")
    rng = random.Random(SEED)

    verdicts = set()
    for _ in range(N_CHANGED):
        case, arguments, log = copy.deepcopy(rng.choice(seen))
        for _ in range(rng.randint(1, 3)):
            change(log, rng)
        try:
            mistake = judge(case, arguments, log)
        except ValidationError:
            verdicts.add(Verdict.PROTOCOL_ERROR)
            continue
        except Exception as error:
            error.add_note(f"{case.id}: {str(log)[:2000]}")
            raise
        verdicts.add(Verdict.PASSED if mistake is None else Verdict(mistake.verdict))
        if mistake is not None:
            assert all(isinstance(line, str) for line in (mistake.what, *mistake.details))

    # some are refused for their form, and with some the judge goes further
    assert Verdict.PROTOCOL_ERROR in verdicts
    assert verdicts & {Verdict.WRONG_VALUE, Verdict.WRONG_TYPE}
