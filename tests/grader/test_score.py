"""Points from verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.score import (
    Outcome,
    ProblemScore,
    allocate,
    score_card,
    score_problem,
    weights,
)
from grader.scorecard import Check, ProblemResult, Status, Verdict
from grader.spec import GROUPS, Baseline, Group, Kind, Phase, Threshold
from grader.thresholds import Speed

GPU = "NVIDIA H200"


def outcome(
    group: Group, i: int, verdict: Verdict = Verdict.PASSED, dtype: str = "float32"
) -> Outcome:
    """One reported test."""
    cause = "" if verdict is Verdict.PASSED else f"got {verdict}"
    return Outcome(
        id=f"{group}[p-N{i}-{dtype}]",
        group=group,
        case=f"N{i}-{dtype}",
        dtype=dtype,
        check=Check(verdict=verdict, cause=cause),
    )


def outcomes(**groups: Sequence[Verdict]) -> list[Outcome]:
    """Tests of the given verdicts, per group."""
    return [
        outcome(group, i, verdict)
        for group in GROUPS
        for i, verdict in enumerate(groups.get(group, ()))
    ]


def speed(
    ratio: float | None = 2.0,
    status: str = "measured",
    reason: str = "",
    *,
    phase: Phase = "forward",
    dtype: str = "float32",
    baseline: Baseline = "eager",
) -> Speed:
    """A threshold that pays 0 at ratio 1 and all at 2."""
    threshold = Threshold(gpu=GPU, baseline=baseline, phase=phase, anchors=((1.0, 0.0), (2.0, 1.0)))
    return Speed("N8-" + dtype, dtype, threshold, ratio, status, reason)  # type: ignore[arg-type]


def scored(
    tests: Sequence[Outcome],
    *,
    points: float = 100,
    kind: Kind = "kernel",
    differentiable: bool = True,
    expected: Mapping[Group, int] | None = None,
    speeds: Sequence[Speed] = (),
    has_benchmarks: bool = True,
    interrupted: str = "",
    held: str = "",
    grader_error: str = "",
) -> ProblemScore:
    """Score a problem that expects just what is reported, unless told otherwise."""
    counted = {group: sum(test.group == group for test in tests) for group in GROUPS}
    return score_problem(
        "p",
        points,
        kind=kind,
        differentiable=differentiable,
        expected=counted if expected is None else expected,
        outcomes=tests,
        speeds=speeds,
        has_benchmarks=has_benchmarks,
        interrupted=interrupted,
        held=held,
        grader_error=grader_error,
    )


PASS, WRONG = Verdict.PASSED, Verdict.WRONG_VALUE
UNCHECKED, BLOCKED = Verdict.NOT_CHECKABLE, Verdict.BLOCKED


@pytest.mark.parametrize(
    ("kind", "differentiable", "want"),
    [
        pytest.param("kernel", True, ([35, 25, 5, 10], 25), id="differentiable"),
        pytest.param("kernel", False, ([60, 15], 25), id="forward-only"),
        pytest.param("scenario", False, ([100], 0), id="scenario"),
    ],
)
def test_weights_are_the_announced_hundredths(
    kind: Kind, differentiable: bool, want: tuple[list[int], int]
) -> None:
    """The table of the module, which sums to 100 in every row."""
    groups, performance = weights(kind, differentiable=differentiable)

    assert (list(groups.values()), performance) == want
    assert sum(groups.values()) + performance == 100


def test_a_group_is_divided_equally_among_its_cases() -> None:
    """Of 20 points, 35/100 over 7 forward cases is 1 each; performance is 5."""
    allocation = allocate(
        20,
        differentiable=True,
        kind="kernel",
        n_cases={"forward": 7, "backward": 5, "gradcheck": 1, "memory": 4},
        n_not_checkable={},
    )

    assert allocation.per_test == pytest.approx(
        {"forward": 1.0, "backward": 1.0, "gradcheck": 1.0, "memory": 0.5}
    )
    assert (allocation.performance, allocation.left) == (5.0, 0.0)


def test_what_cannot_be_checked_moves_to_the_other_groups() -> None:
    """Memory's 10 go 35:25:5 to the others, none to performance and none lost."""
    allocation = allocate(
        100,
        differentiable=True,
        kind="kernel",
        n_cases={"forward": 1, "backward": 1, "gradcheck": 1, "memory": 2},
        n_not_checkable={"memory": 2},
    )

    assert allocation.per_test == pytest.approx(
        {"forward": 35 + 350 / 65, "backward": 25 + 250 / 65, "gradcheck": 5 + 50 / 65, "memory": 0}
    )
    assert (allocation.performance, allocation.left) == (25.0, 0.0)


def test_half_a_group_that_cannot_be_checked_moves_half_its_points() -> None:
    """One of two memory cases unchecked: 7.5 of forward-only's 15 move to forward."""
    allocation = allocate(
        100,
        differentiable=False,
        kind="kernel",
        n_cases={"forward": 1, "memory": 2},
        n_not_checkable={"memory": 1},
    )

    assert allocation.per_test["forward"] == pytest.approx(67.5)
    assert allocation.per_test["memory"] == pytest.approx(7.5)


def test_a_group_without_cases_gives_its_points_to_the_others() -> None:
    """No gradcheck case: its 5 points are not lost."""
    allocation = allocate(
        100,
        differentiable=True,
        kind="kernel",
        n_cases={"forward": 1, "backward": 1, "memory": 1},
        n_not_checkable={},
    )

    assert math.fsum(allocation.per_test.values()) == pytest.approx(75)
    assert allocation.per_test["forward"] == pytest.approx(35 + 5 * 35 / 70)


def test_points_with_nowhere_to_go_leave_the_maximum() -> None:
    """A scenario has one group, so an unchecked quarter of it is left."""
    allocation = allocate(
        8,
        differentiable=False,
        kind="scenario",
        n_cases={"forward": 4},
        n_not_checkable={"forward": 1},
    )

    assert (allocation.per_test["forward"], allocation.left) == (2.0, 2.0)


def test_a_problem_without_benchmarks_earns_all_in_its_tests() -> None:
    """Performance's 25 go 60:15 to forward and memory."""
    allocation = allocate(
        100,
        differentiable=False,
        kind="kernel",
        n_cases={"forward": 1, "memory": 1},
        n_not_checkable={},
        has_benchmarks=False,
    )

    assert allocation.per_test == pytest.approx(
        {"forward": 80, "memory": 20, "backward": 0, "gradcheck": 0}
    )
    assert allocation.performance == 0


@pytest.mark.parametrize(
    ("n_cases", "n_not_checkable", "message"),
    [
        pytest.param({"forward": 1}, {"forward": 2}, "2 of 1 not checkable", id="more-than-all"),
        pytest.param({"backward": 1}, {}, "backward: has 1 cases", id="group-of-another-kind"),
    ],
)
def test_impossible_counts_are_refused(
    n_cases: Mapping[Group, int], n_not_checkable: Mapping[Group, int], message: str
) -> None:
    """A group that the kind does not have, or more unchecked cases than cases."""
    with pytest.raises(ValueError, match=message):
        allocate(
            1,
            differentiable=False,
            kind="kernel",
            n_cases=n_cases,
            n_not_checkable=n_not_checkable,
        )


def test_without_a_gpu_all_passed_is_the_measured_maximum() -> None:
    """75 of 75 measured, 100 in all: performance leaves the maximum."""
    tests = outcomes(forward=[PASS] * 3, backward=[PASS] * 2, gradcheck=[PASS], memory=[PASS])
    result = scored(tests, speeds=[speed(None, "not_measured", "no GPU")]).result

    assert (result.score, result.max_score_measured, result.max_score) == (75.0, 75.0, 100)
    assert result.status is Status.GRADED


@pytest.mark.parametrize("verdict", [WRONG, BLOCKED, Verdict.NOT_IMPLEMENTED, Verdict.TIMEOUT])
def test_what_did_not_pass_earns_zero_and_stays_in(verdict: Verdict) -> None:
    """One of two forward tests lost: 30 of 60; the maximum stays."""
    tests = outcomes(forward=[PASS, verdict], memory=[PASS])
    result = scored(tests, differentiable=False).result

    assert (result.score, result.max_score_measured) == (45.0, 75.0)
    assert (result.tests[1].points, result.tests[1].max_points) == (0.0, 30.0)


def test_not_checkable_is_neither_a_zero_nor_a_pass() -> None:
    """The maximum stays 75 and an unchecked test can earn nothing itself."""
    result = scored(
        outcomes(forward=[PASS], memory=[UNCHECKED, UNCHECKED]), differentiable=False
    ).result

    assert (result.score, result.max_score_measured) == (75.0, 75.0)
    assert [test.max_points for test in result.tests] == [75.0, 0.0, 0.0]


def test_not_checkable_does_not_turn_a_failure_into_a_pass() -> None:
    """Points that move to a failed group are not earned there."""
    result = scored(outcomes(forward=[WRONG], memory=[UNCHECKED]), differentiable=False).result

    assert (result.score, result.max_score_measured) == (0.0, 75.0)


def test_performance_is_divided_among_the_thresholds() -> None:
    """25 points over two thresholds; one pays all, one half: 18.75."""
    tests = outcomes(forward=[PASS], memory=[PASS])
    got = scored(tests, differentiable=False, speeds=[speed(3.0), speed(1.5, baseline="compile")])

    assert [paid.points for paid in got.thresholds] == [12.5, 6.25]
    assert (got.result.score, got.result.max_score_measured) == (93.75, 100.0)


def test_a_threshold_that_was_not_measured_leaves_the_maximum() -> None:
    """One of two thresholds unmeasured: 12.5 points leave."""
    tests = outcomes(forward=[PASS], memory=[PASS])
    got = scored(
        tests, differentiable=False, speeds=[speed(), speed(None, "not_measured", "shared GPU")]
    )

    assert (got.result.score, got.result.max_score_measured) == (87.5, 87.5)


def test_a_fast_wrong_kernel_earns_no_performance() -> None:
    """A failed forward test of the dtype refuses its thresholds, those of other dtypes pay."""
    tests = [
        outcome("forward", 0),
        outcome("forward", 1, WRONG, "float16"),
        outcome("forward", 2, PASS, "float16"),
        outcome("memory", 0),
    ]
    got = scored(tests, differentiable=False, speeds=[speed(), speed(dtype="float16")])

    assert [paid.points for paid in got.thresholds] == [12.5, 0.0]
    assert got.thresholds[1].reason == "1 of 2 forward tests in float16 did not pass"
    assert got.result.max_score_measured == 100.0


@pytest.mark.parametrize(
    ("phase", "want"),
    [
        pytest.param("forward", 25.0, id="forward-needs-only-forward"),
        pytest.param("both", 0.0, id="both-needs-backward-too"),
    ],
)
def test_both_needs_right_gradients(phase: Phase, want: float) -> None:
    """A wrong gradient refuses the phase both, not the phase forward."""
    tests = outcomes(forward=[PASS], backward=[Verdict.WRONG_GRADIENT], gradcheck=[PASS])

    assert scored(tests, speeds=[speed(phase=phase)]).thresholds[0].points == want


def test_a_dtype_that_no_test_checked_is_not_paid() -> None:
    """Without a checked forward test, its performance leaves the maximum."""
    tests = outcomes(forward=[PASS], memory=[PASS])
    got = scored(tests, differentiable=False, speeds=[speed(dtype="bfloat16")])

    assert got.thresholds[0].reason == "no forward test in bfloat16 was checked"
    assert (got.result.score, got.result.max_score_measured) == (75.0, 75.0)


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        pytest.param(Verdict.GRADER_ERROR, Status.GRADER_ERROR, id="grader-error"),
        pytest.param(Verdict.INTEGRITY_HOLD, Status.HELD, id="hold"),
        pytest.param(Verdict.NOT_GRADABLE, Status.HELD, id="not-gradable"),
    ],
)
def test_one_such_test_leaves_the_problem_without_a_score(verdict: Verdict, status: Status) -> None:
    """No score at all, neither zero nor full, and the reason names the test."""
    result = scored(outcomes(forward=[PASS, verdict], memory=[PASS]), differentiable=False).result

    assert (result.status, result.score, result.max_score_measured) == (status, None, None)
    assert result.reason == f"forward[p-N1-float32]: got {verdict}"


def test_reasons_from_the_measurement_hold_or_void_a_problem() -> None:
    """A grader error weighs more than a hold."""
    tests = outcomes(forward=[PASS])

    assert scored(tests, held="faster than a copy").result.status is Status.HELD
    result = scored(tests, held="faster than a copy", grader_error="control failed").result
    assert (result.status, result.reason) == (Status.GRADER_ERROR, "control failed")


@pytest.mark.parametrize(
    ("expected", "reason"),
    [
        pytest.param({"forward": 3}, "forward: 2 of 3 tests reported", id="one-missing"),
        pytest.param({"forward": 1}, "forward: 2 of 1 tests reported", id="one-too-many"),
    ],
)
def test_unequal_counts_are_a_fault_of_the_grader(
    expected: Mapping[Group, int], reason: str
) -> None:
    """Nothing defaults to full or zero marks when the counts disagree."""
    result = scored(outcomes(forward=[PASS, PASS]), expected=expected).result

    assert (result.status, result.reason, result.score) == (Status.GRADER_ERROR, reason, None)


def test_a_test_reported_twice_is_a_fault_of_the_grader() -> None:
    """Twice the same id is no second pass."""
    result = scored([outcome("forward", 0), outcome("forward", 0)]).result

    assert result.reason == "reported more than once: forward[p-N0-float32]"


def test_an_interrupted_problem_is_partial() -> None:
    """What did not run leaves the maximum; what ran keeps its points."""
    result = scored(
        outcomes(forward=[PASS]),
        differentiable=False,
        expected={"forward": 4, "memory": 2},
        interrupted="Ctrl-C",
    ).result

    assert (result.status, result.reason) == (Status.PARTIAL, "Ctrl-C")
    assert (result.score, result.max_score_measured) == (15.0, 15.0)


def test_an_interrupted_run_does_not_make_a_finished_problem_partial() -> None:
    """All expected tests were reported before the interrupt."""
    result = scored(outcomes(forward=[PASS]), interrupted="Ctrl-C").result

    assert result.status is Status.GRADED


def problem(
    status: Status = Status.GRADED, score: float | None = 1.25, name: str = "p"
) -> ProblemResult:
    """A problem worth 2 points."""
    measured = None if score is None else 2.0
    return ProblemResult(
        name=name,
        status=status,
        score=score,
        max_score_measured=measured,
        max_score=2.0,
        tests=(),
    )


def test_a_card_adds_up_its_problems() -> None:
    """2 x 1.25 of 2 x 2.0."""
    totals = score_card([problem(), problem(name="q")], max_score=4)

    assert (totals.status, totals.reason) == (Status.GRADED, "")
    assert (totals.score, totals.max_score_measured, totals.max_score) == (2.5, 4.0, 4)


@pytest.mark.parametrize(
    ("statuses", "want", "reason"),
    [
        pytest.param([Status.HELD], Status.HELD, "under review: q", id="held"),
        pytest.param(
            [Status.HELD, Status.GRADER_ERROR],
            Status.GRADER_ERROR,
            "a fault of the grader: r",
            id="grader-error-first",
        ),
    ],
)
def test_a_problem_without_a_score_leaves_the_card_without_one(
    statuses: list[Status], want: Status, reason: str
) -> None:
    """Never a total that counts such a problem as zero."""
    others = [problem(s, None, n) for s, n in zip(statuses, "qr", strict=False)]
    totals = score_card([problem(), *others], max_score=6)

    assert (totals.status, totals.reason) == (want, reason)
    assert (totals.score, totals.max_score_measured) == (None, None)


def test_a_card_with_a_partial_problem_is_partial() -> None:
    """The points so far are kept and named as such."""
    totals = score_card([problem(Status.PARTIAL), problem(name="q")], max_score=9)

    assert (totals.status, totals.score, totals.max_score) == (Status.PARTIAL, 2.5, 9)
    assert totals.reason == "not all tests ran: p"


def test_an_interrupted_card_is_partial() -> None:
    """Problems not reached are missing from the sums, not zeros in them."""
    totals = score_card([problem()], max_score=4, interrupted="interrupted by Ctrl-C")

    assert (totals.status, totals.reason) == (Status.PARTIAL, "interrupted by Ctrl-C")
    assert (totals.score, totals.max_score_measured) == (1.25, 2.0)


VERDICTS = st.lists(
    st.sampled_from([PASS, WRONG, BLOCKED, UNCHECKED, Verdict.NOT_MEASURED]), max_size=7
)
SPEEDS = st.lists(
    st.one_of(
        st.floats(0.1, 9).map(speed),
        st.just(speed(None, "not_measured", "no GPU")),
        st.just(speed(None, "failed", "crashed")),
    ),
    max_size=5,
)


@settings(deadline=None, derandomize=True, database=None)
@given(
    points=st.integers(1, 40),
    differentiable=st.booleans(),
    forward=VERDICTS,
    gradients=VERDICTS,
    memory=VERDICTS,
    speeds=SPEEDS,
    has_benchmarks=st.booleans(),
)
def test_no_mix_of_verdicts_breaks_the_sums(
    points: int,
    differentiable: bool,
    forward: list[Verdict],
    gradients: list[Verdict],
    memory: list[Verdict],
    speeds: list[Speed],
    has_benchmarks: bool,
) -> None:
    """Parts sum to the total, 0 <= score <= measured <= max, and points are whole hundredths."""
    backward = gradients if differentiable else []
    got = scored(
        outcomes(forward=forward, backward=backward, gradcheck=backward[:1], memory=memory),
        points=points,
        differentiable=differentiable,
        speeds=speeds if has_benchmarks else (),
        has_benchmarks=has_benchmarks,
    )

    result = got.result
    assert result.score is not None
    assert result.max_score_measured is not None
    parts = math.fsum(
        [test.points for test in result.tests] + [paid.points for paid in got.thresholds]
    )
    assert abs(parts - result.score) <= 0.005 + 1e-9
    assert 0 <= result.score <= result.max_score_measured <= result.max_score
    assert round(result.score, 2) == result.score


@settings(deadline=None, derandomize=True, database=None)
@given(
    points=st.integers(1, 40),
    n=st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(0, 2), st.integers(0, 9)),
    n_unchecked=st.integers(0, 9),
)
def test_everything_passed_earns_the_whole_problem(
    points: int, n: tuple[int, int, int, int], n_unchecked: int
) -> None:
    """With a passed forward case, a fast kernel earns every point, unchecked memory or not."""
    memory = [UNCHECKED] * min(n_unchecked, n[3]) + [PASS] * max(n[3] - n_unchecked, 0)
    tests = outcomes(
        forward=[PASS] * n[0], backward=[PASS] * n[1], gradcheck=[PASS] * n[2], memory=memory
    )
    result = scored(tests, points=points, speeds=[speed(9.0)] * 3).result

    if len({test.group for test in tests if test.check.verdict is PASS}) > 1:
        assert result.score == result.max_score_measured == points
    else:
        assert result.score == result.max_score_measured
