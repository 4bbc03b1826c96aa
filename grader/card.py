"""What a grading has brought so far, and the scorecard made of it. Runs nothing, writes nothing."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from grader import __version__, doctor, score
from grader.checks import Trial
from grader.checks.gradcheck import GRADCHECK_ATOL, GRADCHECK_EPS, GRADCHECK_RTOL
from grader.grading import Grading
from grader.measure import constants
from grader.measure.rows import Measurement, with_paid
from grader.sandbox.client import (
    COMPILE_ALLOWANCE_S,
    MAX_RESTARTS,
    MAX_TIMEOUTS,
    PROBLEM_LIMIT_S,
    TIMING_LIMIT_S,
)
from grader.scorecard import (
    Assignment,
    Check,
    Grader,
    Isolation,
    PerformanceRow,
    ProblemResult,
    Scorecard,
    Verdict,
)
from grader.spec import GROUPS, Dtype, Group, Problem

MAX_KERNELS = 100  # of one problem, in the card
NOT_STARTED = Isolation(level="practice", in_force=(), missing=("no process was started",))


@dataclass
class Results:
    """What a grading has brought so far; ``errors`` are faults of the grader, by problem."""

    grading: Grading
    outcomes: dict[str, list[score.Outcome]] = field(default_factory=dict)
    measurements: dict[str, Measurement] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    interrupted: str = ""
    durations: dict[str, float] = field(default_factory=dict)

    def add(self, trial: Trial, check: Check, duration_s: float) -> None:
        """Take one record."""
        name = trial.problem.name
        outcome = score.Outcome(
            trial.id, trial.group, trial.case.id, trial.case.dtype, check, duration_s
        )
        self.outcomes.setdefault(name, []).append(outcome)
        self.durations[name] = self.durations.get(name, 0.0) + duration_s

    def expected(self, problem: Problem) -> Mapping[Group, int]:
        """Tests per group that the specs ask for."""
        return Counter(trial.group for trial in self.grading.trials() if trial.problem is problem)

    def n_reported(self) -> int:
        """Records so far."""
        return sum(map(len, self.outcomes.values()))

    def is_complete(self, problem: Problem) -> bool:
        """Whether all tests of a problem are recorded."""
        want = sum(self.expected(problem).values())
        return len(self.outcomes.get(problem.name, [])) == want

    def passed(self, problem: Problem) -> dict[Dtype, frozenset[Group]]:
        """Per dtype, the groups of which every test passed that could be checked; at least one."""
        ended: dict[tuple[str, Group], set[Verdict]] = {}
        for outcome in self.outcomes.get(problem.name, []):
            ended.setdefault((outcome.dtype, outcome.group), set()).add(outcome.check.verdict)
        dtypes = {dtype for dtype, _ in ended}
        return {
            cast("Dtype", dtype): frozenset(
                group
                for group in GROUPS
                if ended.get((dtype, group), set()) - {Verdict.NOT_CHECKABLE} == {Verdict.PASSED}
            )
            for dtype in dtypes
        }


def build(results: Results, interrupted: str = "") -> Scorecard:
    """The card as things stand; ``interrupted`` says why it may be partial."""
    grading = results.grading
    scored: list[ProblemResult] = []
    rows: list[PerformanceRow] = []
    for problem in grading.problems:
        one, its_rows = _problem(results, problem, interrupted)
        scored.append(one.result)
        rows += its_rows
    only_case = grading.request.case
    total = score.score_card(
        scored,
        max_score=math.fsum(problem.points for problem in grading.problems),
        interrupted=interrupted
        or (f"only the case {only_case} was asked for: no grade" if only_case else ""),
    )
    return Scorecard(
        status=total.status,
        reason=total.reason,
        score=total.score,
        max_score_measured=total.max_score_measured,
        max_score=total.max_score,
        submission=grading.taken.card,
        assignment=_assignment(grading),
        grader=Grader(version=__version__, settings={"inputs.seed": grading.seed} | settings()),
        environment=doctor.environment(grading.device),
        isolation=grading.isolation or NOT_STARTED,
        problems=tuple(scored),
        performance=tuple(rows),
        leaderboard=_leaderboard(rows),
        expected_tests=len(grading.trials()),
        reported_tests=results.n_reported(),
        durations={name: round(spent_s, 3) for name, spent_s in results.durations.items()},
        attempts=tuple(grading.all_attempts()),
    )


def settings() -> dict[str, str | int | float | bool]:
    """The named constants in force."""
    return {
        "gradcheck.eps": GRADCHECK_EPS,
        "gradcheck.atol": GRADCHECK_ATOL,
        "gradcheck.rtol": GRADCHECK_RTOL,
        "worker.max_timeouts": MAX_TIMEOUTS,
        "worker.max_restarts": MAX_RESTARTS,
        "worker.compile_allowance_s": COMPILE_ALLOWANCE_S,
        "worker.problem_limit_s": PROBLEM_LIMIT_S,
        "worker.timing_limit_s": TIMING_LIMIT_S,
        **constants.settings(),
    }


def _problem(
    results: Results, problem: Problem, interrupted: str
) -> tuple[score.ProblemScore, tuple[PerformanceRow, ...]]:
    measurement = results.measurements.get(problem.name, Measurement())
    one = score.score_problem(
        problem.name,
        problem.points,
        kind=problem.kind,
        differentiable=problem.differentiable,
        expected=results.expected(problem),
        outcomes=results.outcomes.get(problem.name, []),
        speeds=measurement.speeds,
        has_benchmarks=bool(problem.benchmark_cases),
        interrupted=interrupted,
        held=measurement.held,
        grader_error=results.errors.get(problem.name, ""),
    )
    compiler = results.grading.compilers.get(problem.name)
    if compiler is not None:
        made = {"kernels": compiler.kernels()[:MAX_KERNELS], "notes": tuple(compiler.notes)}
        one = replace(one, result=one.result.model_copy(update=made))
    return one, with_paid(measurement, one.thresholds)


def _assignment(grading: Grading) -> Assignment:
    digest = hashlib.sha256()
    for problem in grading.problems:
        folder = grading.request.reference / problem.name
        for name in ("problem.py", "hidden.py", "thresholds.json"):
            content = _bytes(folder / name)
            digest.update(f"{problem.name}/{name}\0{len(content)}\0".encode() + content)
    hidden = any(
        case.visibility == "hidden" for problem in grading.problems for case in problem.cases
    )
    return Assignment(
        problems=tuple(problem.name for problem in grading.problems),
        sha256=digest.hexdigest(),
        part="full" if hidden else "public",
    )


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _leaderboard(rows: list[PerformanceRow]) -> dict[str, float]:
    """Per problem, the geometric mean of the ratios to eager, over rows that pay points."""
    logs: dict[str, list[float]] = {}
    for row in rows:
        if (
            row.impl == "eager"
            and row.ratio
            and row.n_verified
            and row.phase in constants.PAID_PHASES
        ):
            logs.setdefault(row.problem, []).append(math.log(row.ratio))
    return {name: round(math.exp(math.fsum(v) / len(v)), 4) for name, v in logs.items()}
