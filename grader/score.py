"""Points from verdicts and speed ratios: pure arithmetic. Runs nothing, reads no clock, needs no torch.

Points in hundredths of the problem's, and who gets them:

    ====================  =======  ========  =========  ======  ===========
    problem               forward  backward  gradcheck  memory  performance
    differentiable kernel      35        25          5      10           25
    forward-only kernel        60         -          -      15           25
    scenario                  100         -          -       -            -
    ====================  =======  ========  =========  ======  ===========

A group pays the share of its passed cases. What cannot be checked moves to the problem's other
groups; what was not measured leaves the maximum of this run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grader.scorecard import Check, ProblemResult, Status, TestResult, ThresholdResult, Verdict
from grader.spec import GROUPS, Group, Kind
from grader.thresholds import NEEDED_GROUPS, Speed, pay

_DIFFERENTIABLE: dict[Group, int] = {"forward": 35, "backward": 25, "gradcheck": 5, "memory": 10}
_FORWARD_ONLY: dict[Group, int] = {"forward": 60, "memory": 15}
_SCENARIO: dict[Group, int] = {"forward": 100}
_PERFORMANCE = 25  # of every kernel problem

# what ran no check of the code can neither earn nor cost
_OUT_OF_THE_MAXIMUM = frozenset({Verdict.NOT_CHECKABLE, Verdict.NOT_MEASURED})


@dataclass(frozen=True)
class Allocation:
    """What each part of a problem can earn, in points.

    Attributes:
        per_test: For each group, what one passed checkable test of it earns; 0 without any.
        performance: For all thresholds together.
        left: What nothing here can earn; it leaves ``max_score_measured``.
    """

    per_test: Mapping[Group, float]
    performance: float
    left: float


@dataclass(frozen=True)
class Outcome:
    """One reported test before points; ``dtype`` is the case's."""

    id: str
    group: Group
    case: str
    dtype: str
    check: Check
    duration_s: float = 0.0


@dataclass(frozen=True)
class ProblemScore:
    """A problem's result, and what each of its ``Speed`` paid, in the order given."""

    result: ProblemResult
    thresholds: tuple[ThresholdResult, ...]


@dataclass(frozen=True)
class Totals:
    """The card's own fields, over its problems."""

    status: Status
    reason: str
    score: float | None
    max_score_measured: float | None
    max_score: float


def weights(kind: Kind, *, differentiable: bool) -> tuple[dict[Group, int], int]:
    """Hundredths of a problem's points per test group, and of performance; together 100."""
    if kind == "scenario":
        return dict(_SCENARIO), 0
    return dict(_DIFFERENTIABLE if differentiable else _FORWARD_ONLY), _PERFORMANCE


def allocate(
    problem_points: float,
    *,
    differentiable: bool,
    kind: Kind,
    n_cases: Mapping[Group, int],
    n_not_checkable: Mapping[Group, int],
    has_benchmarks: bool = True,
) -> Allocation:
    """Divide a problem's points among its tests and its performance.

    With weight w, n cases and c checkable ones, group g keeps ``w_g c_g / n_g`` and gives up the
    rest (all of it where n_g is 0, and the performance points of a problem without benchmarks).
    What is given up goes to the other groups that have a checkable case, in proportion to their
    weights; never to performance, which may not be measurable either. With no such group it is
    ``left``. One test then earns what its group holds divided by c_g.

    Anchors, 100 points, differentiable: 10 cases in each group, all checkable: a forward test
    earns 3.5. Memory (10 points) not checkable at all: forward holds 35 + 10 * 35/65 = 40.38.

    Args:
        problem_points: What the problem is worth.
        differentiable: The problem has backward and gradcheck groups.
        kind: "kernel" or "scenario".
        n_cases: Expected tests per group; a missing group has none.
        n_not_checkable: How many of them ended as not_checkable.
        has_benchmarks: Whether the problem has any benchmark case, measured here or not.

    Raises:
        ValueError: If a count is impossible, or a group has cases but no weight.
    """
    group_weights, performance = weights(kind, differentiable=differentiable)
    checkable = {group: n_cases.get(group, 0) - n_not_checkable.get(group, 0) for group in GROUPS}
    for group in GROUPS:
        n = n_cases.get(group, 0)
        if not 0 <= checkable[group] <= n:
            raise ValueError(f"{group}: {n_not_checkable.get(group, 0)} of {n} not checkable")
        if n and group not in group_weights:
            raise ValueError(f"{group}: has {n} cases, but earns nothing in such a problem")

    held: dict[Group, float] = dict.fromkeys(GROUPS, 0.0)
    given_up: dict[Group | None, float] = {None: 0.0 if has_benchmarks else float(performance)}
    for group, weight in group_weights.items():
        n = n_cases.get(group, 0)
        held[group] = weight * checkable[group] / n if n else 0.0
        given_up[group] = weight - held[group]
    left = 0.0
    for source, amount in given_up.items():
        receivers = [g for g in group_weights if g != source and checkable[g]]
        total = sum(group_weights[g] for g in receivers)
        for group in receivers:
            held[group] += amount * group_weights[group] / total
        left += 0.0 if receivers else amount

    scale = problem_points / 100
    return Allocation(
        per_test={g: scale * held[g] / checkable[g] if checkable[g] else 0.0 for g in GROUPS},
        performance=scale * performance if has_benchmarks else 0.0,
        left=scale * left,
    )


def score_problem(
    name: str,
    points: float,
    *,
    kind: Kind,
    differentiable: bool,
    expected: Mapping[Group, int],
    outcomes: Sequence[Outcome],
    speeds: Sequence[Speed] = (),
    has_benchmarks: bool = True,
    interrupted: str = "",
    held: str = "",
    grader_error: str = "",
) -> ProblemScore:
    """Score one problem.

    Performance points are divided equally among ``speeds``: all thresholds of the problem that
    hold for this GPU, measured or not. With none, performance leaves the maximum. Speed without
    correctness earns nothing: all forward tests of the dtype must have passed, for phases with
    gradients all backward tests too.
    score = sum of what passed tests and thresholds earn; max_score_measured = the same sum had
    everything reported passed; both rounded to 0.01. blocked earns 0 and stays in.

    Args:
        name: The problem's.
        points: What it is worth.
        kind: "kernel" or "scenario".
        differentiable: As in the spec.
        expected: Tests per group that should be reported, counted from the spec.
        outcomes: The tests that were reported.
        speeds: One per threshold that holds for this GPU.
        has_benchmarks: Whether the spec has benchmark cases, measured here or not.
        interrupted: Why tests may be missing; empty when none may.
        held: Why a measurement needs a person's decision, if it does.
        grader_error: What went wrong in the grader, if anything did.
    """
    counts = Counter(outcome.group for outcome in outcomes)
    status, reason = _status(
        expected, outcomes, interrupted=interrupted, held=held, grader_error=grader_error
    )
    allocation = allocate(
        points,
        differentiable=differentiable,
        kind=kind,
        # more reported than expected is a grader error, still shown test by test
        n_cases={group: max(expected.get(group, 0), counts[group]) for group in GROUPS},
        n_not_checkable=Counter(
            outcome.group for outcome in outcomes if outcome.check.verdict is Verdict.NOT_CHECKABLE
        ),
        has_benchmarks=has_benchmarks,
    )
    tests = tuple(_test_result(outcome, allocation) for outcome in outcomes)
    thresholds = _pay_all(speeds, outcomes, allocation.performance)

    earned = [test.points for test in tests] + [paid.points for paid in thresholds]
    could = [test.max_points for test in tests]
    could += [paid.max_points for paid in thresholds if paid.share is not None]
    is_scored = status in {Status.GRADED, Status.PARTIAL}
    return ProblemScore(
        result=ProblemResult(
            name=name,
            status=status,
            score=_cents(earned) if is_scored else None,
            max_score_measured=_cents(could) if is_scored else None,
            max_score=points,
            reason=reason,
            tests=tests,
        ),
        thresholds=thresholds,
    )


def _pay_all(
    speeds: Sequence[Speed], outcomes: Sequence[Outcome], points: float
) -> tuple[ThresholdResult, ...]:
    """Pay every speed its equal part of ``points``, where the tests allow it."""
    return tuple(
        pay(
            speed,
            max_points=points / len(speeds),
            refused=_correctness(speed, outcomes, failed=True),
            unchecked=_correctness(speed, outcomes, failed=False),
        )
        for speed in speeds
    )


def score_card(
    problems: Sequence[ProblemResult], *, max_score: float, interrupted: str = ""
) -> Totals:
    """Add up problems. One without a score leaves the card without one; the others keep theirs.

    Args:
        problems: Those graded so far.
        max_score: What the assignment is worth, problems not reached included.
        interrupted: Why problems may be missing; empty when none may.
    """
    for status in (Status.GRADER_ERROR, Status.HELD):
        names = [problem.name for problem in problems if problem.status is status]
        if names:
            what = "under review" if status is Status.HELD else "a fault of the grader"
            return Totals(status, f"{what}: {', '.join(names)}", None, None, max_score)
    partial = [problem.name for problem in problems if problem.status is Status.PARTIAL]
    reason = interrupted or (f"not all tests ran: {', '.join(partial)}" if partial else "")
    return Totals(
        status=Status.PARTIAL if reason else Status.GRADED,
        reason=reason,
        score=_cents([problem.score or 0.0 for problem in problems]),
        max_score_measured=_cents([problem.max_score_measured or 0.0 for problem in problems]),
        max_score=max_score,
    )


def _status(
    expected: Mapping[Group, int],
    outcomes: Sequence[Outcome],
    *,
    interrupted: str,
    held: str,
    grader_error: str,
) -> tuple[Status, str]:
    def first(*verdicts: Verdict) -> str:
        found = [outcome for outcome in outcomes if outcome.check.verdict in verdicts]
        return f"{found[0].id}: {found[0].check.cause}" if found else ""

    error = grader_error or first(Verdict.GRADER_ERROR)
    if error:
        return Status.GRADER_ERROR, error
    reported = Counter(outcome.group for outcome in outcomes)
    ids = Counter(outcome.id for outcome in outcomes)
    twice = sorted(id_ for id_, n in ids.items() if n > 1)
    if twice:
        return Status.GRADER_ERROR, f"reported more than once: {', '.join(twice)}"
    for group in GROUPS:
        want = expected.get(group, 0)
        if reported[group] > want or (reported[group] < want and not interrupted):
            return Status.GRADER_ERROR, f"{group}: {reported[group]} of {want} tests reported"
    # not_gradable says that the code was not judged: a person decides, it is no zero
    review = held or first(Verdict.INTEGRITY_HOLD, Verdict.NOT_GRADABLE)
    if review:
        return Status.HELD, review
    if len(outcomes) < sum(expected.values()):
        return Status.PARTIAL, interrupted
    return Status.GRADED, ""


def _correctness(speed: Speed, outcomes: Sequence[Outcome], *, failed: bool) -> str:
    """Why no speed of this dtype can be paid: a test ``failed``, or else none was checked."""
    for group in NEEDED_GROUPS[speed.threshold.phase]:
        verdicts = [
            outcome.check.verdict
            for outcome in outcomes
            if outcome.group == group
            and outcome.dtype == speed.dtype
            and outcome.check.verdict not in _OUT_OF_THE_MAXIMUM
        ]
        n_failed = sum(verdict is not Verdict.PASSED for verdict in verdicts)
        if failed and n_failed:
            return f"{n_failed} of {len(verdicts)} {group} tests in {speed.dtype} did not pass"
        if not failed and not verdicts:
            return f"no {group} test in {speed.dtype} was checked"
    return ""


def _test_result(outcome: Outcome, allocation: Allocation) -> TestResult:
    verdict = outcome.check.verdict
    maximum = 0.0 if verdict in _OUT_OF_THE_MAXIMUM else allocation.per_test[outcome.group]
    return TestResult(
        id=outcome.id,
        group=outcome.group,
        case=outcome.case,
        verdict=verdict,
        points=maximum if verdict is Verdict.PASSED else 0.0,
        max_points=maximum,
        cause=outcome.check.cause,
        duration_s=outcome.duration_s,
    )


def _cents(parts: Sequence[float]) -> float:
    return round(math.fsum(parts), 2)
