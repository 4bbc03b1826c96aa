"""What a result is: the scorecard file and the record of one test. Imports no torch.

An illegal result cannot be stored: validators tie scores to status, and sums to their parts.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from grader.seen import CompiledKernel
from grader.spec import Baseline, Group, Phase

SCHEMA_VERSION: Literal[1] = 1
MAX_CAUSE_CHARS = 20_000
_CENT = 0.005  # points are reported to 0.01


class Verdict(StrEnum):
    """How one test ended. In order of precedence: the first that applies wins."""

    GRADER_ERROR = "grader_error"
    INTEGRITY_HOLD = "integrity_hold"
    IMPORT_ERROR = "import_error"
    NOT_IMPLEMENTED = "not_implemented"
    COMPILE_ERROR = "compile_error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    CRASHED = "crashed"
    PROTOCOL_ERROR = "protocol_error"
    FOREIGN_KERNEL = "foreign_kernel"
    MODIFIED_INPUT = "modified_input"
    WRONG_TYPE = "wrong_type"
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    OUT_OF_BOUNDS = "out_of_bounds"
    UNINITIALISED_READ = "uninitialised_read"
    RACE = "race"
    DEADLOCK = "deadlock"
    NEVER_WRITTEN = "never_written"
    NON_FINITE = "non_finite"
    WRONG_VALUE = "wrong_value"
    WRONG_GRADIENT = "wrong_gradient"
    EXCESS_TRAFFIC = "excess_traffic"
    PASSED = "passed"

    # without a verdict on the code, each with its reason
    NOT_MEASURED = "not_measured"
    NOT_CHECKABLE = "not_checkable"
    BLOCKED = "blocked"
    NOT_GRADABLE = "not_gradable"


class Status(StrEnum):
    """What the card, or one problem of it, is."""

    GRADED = "graded"
    PARTIAL = "partial"
    HELD = "held"
    GRADER_ERROR = "grader_error"


SCORED = frozenset({Status.GRADED, Status.PARTIAL})

Points = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Milliseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Record(BaseModel):
    """Base of all parts of the card: immutable, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Check(Record):
    """Verdict on one test, with the words the student reads."""

    verdict: Verdict
    cause: Annotated[str, Field(max_length=MAX_CAUSE_CHARS)] = ""
    """Where, what, got, want, allowed, why and how to rerun. Empty only when passed."""

    @model_validator(mode="after")
    def _explained(self) -> Self:
        if (self.verdict is Verdict.PASSED) == bool(self.cause):
            raise ValueError(f"a {self.verdict} check must {'not ' if self.cause else ''}say why")
        return self


class TestResult(Record):
    """One test: one case in one group."""

    __test__: ClassVar[bool] = False  # pytest takes any class named Test... for one of its own

    id: str
    """Such as ``forward[softmax-M63-N781-float32]``."""
    group: Group
    case: str
    verdict: Verdict
    points: Points
    """Earned, before rounding to 0.01."""
    max_points: Points
    """What a pass earns. 0 where nothing can be earned here (not_checkable)."""
    cause: Annotated[str, Field(max_length=MAX_CAUSE_CHARS)] = ""
    duration_s: Seconds = 0.0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.points > self.max_points + 1e-9:
            raise ValueError(f"{self.id}: {self.points} points of {self.max_points}")
        if self.points > 0 and self.verdict is not Verdict.PASSED:
            raise ValueError(f"{self.id}: a {self.verdict} test earns no points")
        if (self.verdict is Verdict.PASSED) == bool(self.cause):
            raise ValueError(
                f"{self.id}: a {self.verdict} test must have a cause exactly if failed"
            )
        return self


class ProblemResult(Record):
    """One problem."""

    name: str
    status: Status
    score: Points | None
    """Earned, tests and performance; None when held or a grader error."""
    max_score_measured: Points | None
    """What could be earned on this machine."""
    max_score: Points
    """What the problem is worth."""
    reason: str = ""
    """Why there is no score, or what was not measured and why."""
    tests: tuple[TestResult, ...]
    kernels: tuple[CompiledKernel, ...] = ()
    """Compiled beside the simulator where Triton is installed: forward and backward, each once."""
    notes: tuple[str, ...] = ()
    """What may interest the author; never a verdict."""

    @model_validator(mode="after")
    def _score_matches_status(self) -> Self:
        _check_score(self.name, self.status, self.score, self.max_score_measured, self.max_score)
        return self


class ThresholdResult(Record):
    """What one threshold paid."""

    baseline: Baseline
    phase: Phase
    gpu: str
    anchors: tuple[tuple[float, float], ...]
    ratio: Finite | None
    share: Annotated[float, Field(ge=0, le=1)] | None
    """Share of ``max_points`` earned, from the anchors; None when not measured."""
    points: Points
    max_points: Points
    reason: str = ""
    """Why it paid nothing, or less than the ratio would: not measured, forward failed, unstable."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.points > self.max_points + 1e-9:
            raise ValueError(f"threshold pays {self.points} of {self.max_points} points")
        if self.share is None and (self.points > 0 or not self.reason):
            raise ValueError("a threshold that was not measured pays nothing and says why")
        return self


class PerformanceRow(Record):
    """One benchmark case in one phase: the submission, or the submission beside one baseline."""

    problem: str
    case: str
    phase: Phase
    impl: Literal["submission", "eager", "builtin", "compile"]
    """Whose time ``median_ms`` is."""
    status: Literal["measured", "unstable", "not_measured", "failed"]
    reason: str = ""
    n: Annotated[int, Field(ge=0)]
    """Timed calls (pairs, for a baseline)."""
    n_verified: Annotated[int, Field(ge=0)] = 0
    """Of the submission's timed calls, those whose output was fetched and found right."""
    median_ms: Milliseconds | None = None
    """GPU time of one call, cold L2."""
    ratio: Finite | None = None
    """Baseline time over submission time, median over pairs; above 1 is faster. Baselines only."""
    ci95: tuple[Finite, Finite] | None = None
    """Bootstrap interval of ``ratio``."""
    roofline_pct: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    peak_bytes: Annotated[int, Field(ge=0)] | None = None
    thresholds: tuple[ThresholdResult, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        where = f"{self.problem} [{self.case}] {self.phase} {self.impl}"
        measured = self.status in {"measured", "unstable"}
        if measured != (self.median_ms is not None):
            raise ValueError(f"{where}: {self.status}, but median_ms is {self.median_ms}")
        if measured and self.n < 1:
            raise ValueError(f"{where}: measured without a timed call")
        if not measured and not self.reason:
            raise ValueError(f"{where}: {self.status} must say why")
        return self


class Control(Record):
    """A measurement whose result is known; a failed one voids the run's performance."""

    name: str
    dtype: str
    want: Finite
    got: Finite
    allowed: Finite
    passed: bool


class Submission(Record):
    """What was graded. Paths are relative; contents are named by hash."""

    path: str
    sha256: str
    """Of all files taken, names and contents."""
    files: tuple[str, ...]
    ignored: tuple[str, ...] = ()
    """Files of the folder that were not taken."""


class Assignment(Record):
    """Which problems, in which version."""

    problems: tuple[str, ...]
    sha256: str
    part: Literal["public", "full"]
    """"full" includes the hidden cases."""


class Grader(Record):
    """The program that graded."""

    version: str
    settings: dict[str, str | int | float | bool]
    """Named constants in force: warm-up calls, flush, confidence, gradcheck's eps and tolerances."""


class Environment(Record):
    """Where it was graded. No host, user or absolute path."""

    python: str
    torch: str
    triton: str | None
    numpy: str
    platform: str
    device: Literal["cpu", "cuda"]
    gpu: str | None = None
    gpu_driver: str | None = None
    cuda: str | None = None
    backend: str
    """What ran the kernels: "simulator" or "triton"."""


class Isolation(Record):
    """What kept student code apart, as probed."""

    level: Literal["practice", "landlock", "strict"]
    in_force: tuple[str, ...]
    missing: tuple[str, ...]


class Attempt(Record):
    """One start of a worker that did not end by our own stop."""

    problem: str
    backend: str
    ended: str
    """"timeout", "signal 11", "exit 0", ..."""


class Scorecard(Record):
    """One grading of one submission."""

    schema_version: Literal[1] = SCHEMA_VERSION
    status: Status
    reason: str = ""
    """Why the card is partial, held or a grader error."""
    score: Points | None
    max_score_measured: Points | None
    max_score: Points
    submission: Submission
    assignment: Assignment
    grader: Grader
    environment: Environment
    isolation: Isolation
    problems: tuple[ProblemResult, ...]
    performance: tuple[PerformanceRow, ...] = ()
    controls: tuple[Control, ...] = ()
    leaderboard: dict[str, float] = Field(default_factory=dict)
    """Per problem, the geometric mean over paid rows of the ratio to eager; verified rows only."""
    integrity: tuple[str, ...] = ()
    """Notes for course staff; never a verdict."""
    expected_tests: Annotated[int, Field(ge=0)]
    reported_tests: Annotated[int, Field(ge=0)]
    durations: dict[str, Seconds] = Field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()

    @model_validator(mode="after")
    def _sums_add_up(self) -> Self:
        _check_score("card", self.status, self.score, self.max_score_measured, self.max_score)
        for problem in self.problems:
            if problem.score is None:
                continue
            parts = math.fsum(test.points for test in problem.tests) + math.fsum(
                threshold.points
                for row in self.performance
                if row.problem == problem.name
                for threshold in row.thresholds
            )
            if abs(parts - problem.score) > _CENT + 1e-9:
                raise ValueError(f"{problem.name}: score {problem.score}, parts sum to {parts}")
        if self.score is not None:
            total = math.fsum(problem.score or 0.0 for problem in self.problems)
            if abs(total - self.score) > _CENT + 1e-9:
                raise ValueError(f"score {self.score}, problems sum to {total}")
        if self.status is Status.GRADED and self.expected_tests != self.reported_tests:
            raise ValueError(
                f"{self.reported_tests} of {self.expected_tests} tests reported: not a graded card"
            )
        return self


def _check_score(
    name: str, status: Status, score: float | None, measured: float | None, maximum: float
) -> None:
    if (status in SCORED) != (score is not None):
        raise ValueError(f"{name}: status {status} and score {score} do not go together")
    if (score is None) != (measured is None):
        raise ValueError(f"{name}: score {score} with max_score_measured {measured}")
    if score is not None and measured is not None:
        if score > measured + 1e-9:
            raise ValueError(f"{name}: score {score} of {measured} measured")
        if measured > maximum + _CENT + 1e-9:
            raise ValueError(f"{name}: {measured} measured of {maximum}")
