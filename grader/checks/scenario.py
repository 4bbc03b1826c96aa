"""The one group of a scenario: runs its case in the student's process, and has its judge see the log."""

from __future__ import annotations

from pydantic import ValidationError

from grader import verify
from grader.checks.trial import Trial, ended
from grader.sandbox.client import Student, StudentFaultError
from grader.scorecard import Check, Verdict
from grader.spec import Inputs
from grader.verify import PASSED


def scenario(trial: Trial, student: Student, arguments: Inputs) -> Check:
    """What the judge says of one case; not checkable where this machine lacks what it needs."""
    problem, case = trial.problem, trial.case
    assert problem.judge is not None
    lacking = problem.not_checkable(case, "cuda" if student.target == "cuda" else "cpu")
    if lacking:
        return verify.fail(Verdict.NOT_CHECKABLE, lacking, trial.context)
    try:
        log = student.scenario(case, arguments)
    except StudentFaultError as fault:
        return ended(trial, fault)
    try:
        mistake = problem.judge(case, arguments, log)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        what = f"the log of the scenario is not of its form: {where}: {first['msg']}"
        return verify.fail(Verdict.PROTOCOL_ERROR, what, trial.context)
    if mistake is None:
        return PASSED
    return verify.fail(Verdict(mistake.verdict), mistake.what, trial.context, *mistake.details)
