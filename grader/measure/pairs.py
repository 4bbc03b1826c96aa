"""Takes turns: the student and one baseline on the same nonce, in random order. Verifier's side.

Knows no process: a ``Timer`` is whatever answers prepare, call and fetch. Does not interpret times.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from grader.measure.constants import (
    DEFAULT_PAIRS,
    FETCH_ONE_IN,
    MIN_PAIRS,
    MIN_VERIFIED,
    PAIRS_PER_LOOK,
    TARGET_HALF_WIDTH,
)
from grader.measure.implementations import BaselineError
from grader.measure.statistics import paired_ratio
from grader.measure.timed_calls import NONCE_BITS, Called, Fetched, Prepared
from grader.scorecard import Check, Verdict

Verify: TypeAlias = Callable[[int, Called, Fetched], Check | None]
"""Nonce, reply and fetched contents to what is wrong with the call, or None."""


class WorkerFault(Exception):  # noqa: N818  it need not be an error of ours
    """The process behind a timer failed at a request; ``check`` says how."""

    def __init__(self, check: Check) -> None:
        super().__init__(check.cause)
        self.check = check


class Timer(Protocol):
    """Timed calls of one implementation of one benchmark case in one phase.

    Each method raises ``WorkerFault`` where the process fails to answer.
    """

    def prepare(self) -> Prepared:
        """Compile, tune and warm up."""

    def call(self, nonce: int) -> Called:
        """Time one call."""

    def fetch(self) -> Fetched:
        """Give outputs and gradients of the preceding call."""


@dataclass(frozen=True)
class Samples:
    """Times of pairs of calls, in order.

    Attributes:
        n_verified: Of the student's calls, those fetched and found right.
        failure: What was wrong with the last of the student's calls; its pair is not in the times.
    """

    student_ms: tuple[float, ...]
    baseline_ms: tuple[float, ...]
    n_verified: int
    failure: Check | None = None

    @property
    def n(self) -> int:
        """Pairs."""
        return len(self.student_ms)


def compare(
    student: Timer,
    baseline: Timer,
    *,
    verify: Verify,
    rng: random.Random,
    n_pairs: int = DEFAULT_PAIRS,
) -> Samples:
    """Time pairs of calls until the interval is narrow or the budget is spent.

    Each pair has a fresh nonce, and a coin decides who goes first. After the student's reply, a
    draw decides whether that call is fetched and verified: one in ``FETCH_ONE_IN``, the first
    always, and as many more as ``MIN_VERIFIED`` needs. The first failure ends the comparison.

    Args:
        student: Prepared.
        baseline: Prepared.
        verify: Judges one fetched call.
        rng: Nothing the student sees may tell its next draw: ``random.SystemRandom()``.
        n_pairs: Budget, at least ``MIN_PAIRS``.

    Raises:
        WorkerFault: If the student's process fails.
        BaselineError: If the baseline's does, or its inputs are not those of the nonce.
        ValueError: If the budget is below ``MIN_PAIRS``.
    """
    if n_pairs < MIN_PAIRS:
        raise ValueError(f"n_pairs is {n_pairs}, must be at least {MIN_PAIRS}")
    student_ms: list[float] = []
    baseline_ms: list[float] = []
    n_verified = 0
    while len(student_ms) < n_pairs and not _is_narrow(student_ms, baseline_ms):
        nonce = rng.getrandbits(NONCE_BITS)
        got, base = _call_both(student, baseline, nonce, student_first=rng.getrandbits(1) == 1)
        failure = _implausible(got)
        same_inputs = got.input_hash == base.input_hash
        if failure is None and (_is_fetched(rng, len(student_ms), n_verified) or not same_inputs):
            failure = verify(nonce, got, student.fetch())
            n_verified += failure is None
            if failure is None and not same_inputs:
                raise BaselineError("the baseline's inputs after a call are not the nonce's")
        if failure is not None:
            return Samples(tuple(student_ms), tuple(baseline_ms), n_verified, failure)
        student_ms.append(got.event_ms)
        baseline_ms.append(base.event_ms)
    return Samples(tuple(student_ms), tuple(baseline_ms), n_verified)


@contextmanager
def baseline_faults() -> Iterator[None]:
    """Turn a fault of the baselines' process into the grader's own."""
    try:
        yield
    except WorkerFault as fault:
        raise BaselineError(f"a baseline could not be timed: {fault}") from fault


def _call_both(
    student: Timer, baseline: Timer, nonce: int, *, student_first: bool
) -> tuple[Called, Called]:
    got = student.call(nonce) if student_first else None
    with baseline_faults():
        base = baseline.call(nonce)
    return got or student.call(nonce), base


def _is_narrow(student_ms: list[float], baseline_ms: list[float]) -> bool:
    n = len(student_ms)
    if n < MIN_PAIRS or (n - MIN_PAIRS) % PAIRS_PER_LOOK:
        return False
    return paired_ratio(student_ms, baseline_ms).relative_half_width <= TARGET_HALF_WIDTH


def _is_fetched(rng: random.Random, n_done: int, n_verified: int) -> bool:
    drawn = rng.randrange(FETCH_ONE_IN) == 0
    is_owed = MIN_VERIFIED - n_verified >= MIN_PAIRS - n_done
    return drawn or n_done == 0 or is_owed


def _implausible(called: Called) -> Check | None:
    if math.isfinite(called.event_ms) and called.event_ms > 0:
        return None
    return Check(
        verdict=Verdict.PROTOCOL_ERROR,
        cause=f"the process replied a time of {called.event_ms} ms, which no call takes",
    )
