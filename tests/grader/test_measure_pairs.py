"""Pairs of calls: one nonce for both, random order, verified at random, stopped on width."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from grader.measure import pairs
from grader.measure.constants import MIN_PAIRS, MIN_VERIFIED
from grader.measure.implementations import BaselineError
from grader.measure.pairs import Samples, WorkerFault, compare
from grader.measure.timed_calls import Called, Fetched, Prepared
from grader.scorecard import Check, Verdict

CRASHED = Check(verdict=Verdict.CRASHED, cause="segmentation fault")
WRONG = Check(verdict=Verdict.WRONG_VALUE, cause="3 of 4 values are wrong")


class FakeTimer:
    """Replies what it is told to, and writes down who was asked what."""

    def __init__(
        self,
        name: str,
        log: list[tuple[str, int]],
        ms: Callable[[int], float] = lambda _i: 1.0,
        *,
        fails_at: int = -1,
        input_hash: Callable[[int], int] = lambda nonce: nonce,
    ) -> None:
        self.name, self.log, self.ms = name, log, ms
        self.fails_at, self.input_hash = fails_at, input_hash
        self.n_calls = 0
        self.n_fetches = 0

    def prepare(self) -> Prepared:
        """Nothing to do."""
        return Prepared((), 0.0, 0)

    def call(self, nonce: int) -> Called:
        """Reply the next time."""
        if self.n_calls == self.fails_at:
            raise WorkerFault(CRASHED)
        self.n_calls += 1
        self.log.append((self.name, nonce))
        return Called(self.ms(self.n_calls), checksum=nonce, input_hash=self.input_hash(nonce))

    def fetch(self) -> Fetched:
        """Count."""
        self.n_fetches += 1
        return Fetched(())


def run(
    student_ms: Callable[[int], float] = lambda _i: 1.0,
    baseline_ms: Callable[[int], float] = lambda _i: 1.0,
    *,
    verify: pairs.Verify = lambda _nonce, _called, _fetched: None,
    n_pairs: int = 40,
    seed: int = 0,
) -> tuple[Samples, list[tuple[str, int]], FakeTimer]:
    """Compare two fakes."""
    log: list[tuple[str, int]] = []
    student = FakeTimer("S", log, student_ms)
    samples = compare(
        student,
        FakeTimer("B", log, baseline_ms),
        verify=verify,
        rng=random.Random(seed),
        n_pairs=n_pairs,
    )
    return samples, log, student


def noisy(seed: int) -> Callable[[int], float]:
    """Times with 20 % noise: no interval over 40 of them is narrow."""
    rng = random.Random(seed)
    return lambda _i: rng.lognormvariate(0, 0.2)


def test_both_get_the_nonce_of_their_pair_and_no_other_pair_does() -> None:
    """Nonces come in twos, each fresh."""
    _, log, _ = run(noisy(1), noisy(2))

    firsts, seconds = log[0::2], log[1::2]
    assert all(a[1] == b[1] and a[0] != b[0] for a, b in zip(firsts, seconds, strict=True))
    assert len({nonce for _, nonce in firsts}) == 40


def test_order_within_a_pair_is_random() -> None:
    """Neither always goes first: 40 coins land between 8 and 32 (four standard deviations)."""
    _, log, _ = run(noisy(1), noisy(2))

    assert 8 <= sum(name == "S" for name, _ in log[0::2]) <= 32


def test_equal_times_stop_at_the_least_number_of_pairs() -> None:
    """A narrow interval needs no more; never fewer than MIN_PAIRS."""
    samples, _, _ = run()

    assert samples.n == MIN_PAIRS


def test_noise_uses_the_whole_budget() -> None:
    """A wide interval goes on to the budget and no further."""
    samples, _, _ = run(noisy(1), noisy(2), n_pairs=33)

    assert samples.n == 33


def test_position_does_not_stop() -> None:
    """Being ten times as fast changes nothing about when to stop."""
    rng_1, rng_2 = noisy(1), noisy(2)

    samples, _, _ = run(lambda i: 0.1 * rng_1(i), rng_2)

    assert samples.n == 40


def test_times_stand_with_their_owner() -> None:
    """The student's times are the student's whoever went first."""
    samples, _, _ = run(lambda i: 1 + i / 100, lambda i: 2 + i / 100, n_pairs=20)

    assert samples.student_ms == tuple(1 + i / 100 for i in range(1, 21))
    assert samples.baseline_ms == tuple(2 + i / 100 for i in range(1, 21))


@pytest.mark.parametrize("seed", range(8))
def test_enough_calls_are_verified(seed: int) -> None:
    """At least MIN_VERIFIED of any comparison, the first among them; not all."""
    samples, _, student = run(seed=seed)

    assert MIN_VERIFIED <= samples.n_verified == student.n_fetches < MIN_PAIRS


def test_every_call_may_be_verified() -> None:
    """Over many comparisons each place in the order is drawn sometimes and the first always."""
    drawn: list[set[int]] = []
    for seed in range(60):
        log: list[tuple[str, int]] = []
        seen: set[int] = set()

        def verify(
            nonce: int,
            called: Called,
            fetched: Fetched,
            log: list[tuple[str, int]] = log,
            seen: set[int] = seen,
        ) -> None:
            seen.add((len(log) - 1) // 2)

        compare(
            FakeTimer("S", log),
            FakeTimer("B", log),
            verify=verify,
            rng=random.Random(seed),
        )
        drawn.append(seen)

    counts = [sum(place in seen for seen in drawn) for place in range(MIN_PAIRS)]
    assert counts[0] == 60
    assert all(0 < count < 60 for count in counts[1:-1])


def test_a_wrong_call_ends_it() -> None:
    """The first fetched call that is wrong is the outcome."""
    samples, log, _ = run(verify=lambda _nonce, _called, _fetched: WRONG)

    assert samples.failure == WRONG
    assert (samples.n, samples.n_verified, len(log)) == (0, 0, 2)


@pytest.mark.parametrize("ms", [0.0, -1.0, float("nan"), float("inf")])
def test_an_impossible_time_is_the_students_failure(ms: float) -> None:
    """A forged reply is a verdict, not an error of the statistics."""
    samples, _, _ = run(lambda _i: ms)

    assert samples.failure is not None
    assert samples.failure.verdict is Verdict.PROTOCOL_ERROR


def test_other_inputs_than_the_baselines_are_verified_at_once() -> None:
    """A student whose inputs differ from the seventh call on is looked at there."""
    log: list[tuple[str, int]] = []
    verified_after: list[int] = []
    student = FakeTimer("S", log, input_hash=lambda nonce: nonce if len(log) < 13 else 0)

    def verify(_nonce: int, called: Called, _fetched: Fetched) -> Check | None:
        verified_after.append(len(log))
        return WRONG if called.input_hash == 0 else None

    samples = compare(student, FakeTimer("B", log), verify=verify, rng=random.Random(1))

    assert samples.failure == WRONG
    assert verified_after[-1] == 14


def test_a_baseline_that_changes_its_inputs_is_the_graders_fault() -> None:
    """When the student's inputs are right, the baseline's are not."""
    log: list[tuple[str, int]] = []

    with pytest.raises(BaselineError, match="the baseline's inputs"):
        compare(
            FakeTimer("S", log),
            FakeTimer("B", log, input_hash=lambda _nonce: 0),
            verify=lambda _nonce, _called, _fetched: None,
            rng=random.Random(0),
        )


def test_whose_process_failed_decides_whose_fault_it_is() -> None:
    """The student's fault passes through; the baseline's becomes a BaselineError."""
    log: list[tuple[str, int]] = []
    good, bad = FakeTimer("G", log), FakeTimer("X", log, fails_at=3)

    with pytest.raises(WorkerFault, match="segmentation fault"):
        compare(bad, good, verify=lambda *_: None, rng=random.Random(0))
    with pytest.raises(BaselineError, match="segmentation fault"):
        compare(good, bad, verify=lambda *_: None, rng=random.Random(0))


def test_a_budget_below_the_least_is_refused() -> None:
    """Nineteen pairs are no measurement."""
    with pytest.raises(ValueError, match="must be at least 20"):
        run(n_pairs=19)
