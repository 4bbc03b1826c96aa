"""A problem timed end to end on the CPU, with made-up times: rows, speeds, points."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import pytest
import torch

from grader.measure import bench
from grader.measure.bench import measure_problem
from grader.measure.constants import MIN_PAIRS, MIN_VERIFIED, settings
from grader.measure.implementations import BaselineError, Impl, baseline, impls_of
from grader.measure.pairs import Timer, WorkerFault
from grader.measure.roofline import Peaks, limit_ms, measure_peaks, probe, probe_specs, roofline_pct
from grader.measure.rows import Measurement, with_paid
from grader.measure.stopwatch import ScriptedStopwatch
from grader.measure.timed_calls import Called, Fetched, Prepared, TimedCalls
from grader.scorecard import Check, PerformanceRow, Verdict
from grader.spec import (
    BenchmarkCase,
    Dtype,
    Group,
    InputSpec,
    Phase,
    Problem,
    Threshold,
    Tolerance,
    Traffic,
)
from grader.thresholds import pay

GPU = "NVIDIA H200"
ALL: Mapping[Dtype, frozenset[Group]] = {"float32": frozenset({"forward", "backward"})}
EAGER = Threshold(GPU, "eager", "forward", ((0.25, 0.0), (0.75, 1.0)))
ROOFLINE = Threshold(GPU, "roofline", "forward", ((0.0, 0.0), (1.0, 1.0)))
COMPILE_BOTH = Threshold(GPU, "compile", "both", ((0.5, 0.0), (1.5, 1.0)))

Entry = Callable[..., Any]
T = TypeVar("T")


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    """Preparing sets torch's precision for the process; put it back."""
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def eager(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """``x * w``."""
    return x * w


def problem(*thresholds: Threshold, builtin: Entry | None = None) -> Problem:
    """``x * w``, timed forward and both."""
    case = BenchmarkCase(
        {"M": 4, "N": 8},
        "float32",
        (
            InputSpec("x", (4, 8), "float32", requires_grad=True),
            InputSpec("w", (8,), "float32", requires_grad=True),
        ),
        phases=("forward", "both"),
        thresholds=thresholds,
    )
    return Problem(
        name="scale",
        kind="kernel",
        points=8,
        cases=(),
        make_inputs=lambda _case, _rng: {},
        oracle=lambda x, w: x.double() * w.double(),
        tolerance=lambda _case, _output: Tolerance(1e-5, 1e-5),
        # 1 ms at 1 TB/s, whatever the size
        min_bytes=lambda _case, _phase: 10**9,
        flops=lambda _case, _phase: 32,
        traffic=lambda _case, _phase: Traffic(64, 32),
        baselines={"eager": eager, "builtin": builtin},
        differentiable=True,
        benchmark_cases=(case,),
    )


class Caller:
    """A timer in this process whose exceptions are the student's."""

    def __init__(self, calls: TimedCalls) -> None:
        self.calls = calls

    def prepare(self) -> Prepared:
        """Prepare."""
        return self._told(self.calls.prepare)

    def call(self, nonce: int) -> Called:
        """Call."""
        return self._told(lambda: self.calls.call(nonce))

    def fetch(self) -> Fetched:
        """Fetch."""
        return self.calls.fetch()

    @staticmethod
    def _told(ask: Callable[[], T]) -> T:
        try:
            return ask()
        except ArithmeticError as error:
            raise WorkerFault(Check(verdict=Verdict.CRASHED, cause=str(error))) from error


def timer(
    fn: Entry, case: BenchmarkCase, phase: Phase, ms: float, noise: float = 0, seed: int = 0
) -> Caller:
    """Time ``fn`` with made-up times."""
    watch = ScriptedStopwatch(ms, noise=noise, seed=seed)
    return Caller(TimedCalls(fn, case.inputs, case.scalars, phase, watch))


def measure(
    problem_: Problem,
    *,
    entry: Entry = eager,
    student_ms: float = 1.0,
    baseline_ms: Mapping[Impl, float] = {"eager": 1.0, "builtin": 1.0, "compile": 1.0},
    noise: float = 0.0,
    gpu: str | None = GPU,
    passed: Mapping[Dtype, frozenset[Group]] = ALL,
    peaks: Peaks | None = None,
    progress: bench.Progress | None = None,
) -> Measurement:
    """Measure with eager in place of the compiled baseline, which needs no compiler."""

    def open_baseline(case: BenchmarkCase, phase: Phase, impl: Impl) -> Timer:
        fn = baseline(problem_, "eager" if impl == "compile" else impl)
        return timer(fn, case, phase, baseline_ms[impl], noise, seed=1)

    return measure_problem(
        problem_,
        open_student=lambda case, phase: timer(entry, case, phase, student_ms, noise),
        open_baseline=open_baseline,
        gpu=gpu,
        device=torch.device("cpu"),
        passed=passed,
        peaks=peaks,
        rng=random.Random(5),
        progress=progress,
    )


def row_of(measurement: Measurement, phase: Phase, impl: str) -> PerformanceRow:
    """The only such row."""
    (row,) = [r for r in measurement.rows if (r.phase, r.impl) == (phase, impl)]
    return row


def test_against_itself_everything_is_one() -> None:
    """Equal times give a ratio of 1 with no width, verified, for every baseline and phase."""
    measurement = measure(problem(builtin=torch.mul))

    assert [(row.phase, row.impl) for row in measurement.rows] == [
        (phase, impl)
        for phase in ("forward", "both")
        for impl in ("submission", "eager", "builtin", "compile")
    ]
    for row in measurement.rows:
        assert row.status == "measured"
        assert row.median_ms == pytest.approx(1)
        if row.impl != "submission":
            assert (row.ratio, row.ci95, row.n) == (1, (1, 1), MIN_PAIRS)
            assert row.n_verified >= MIN_VERIFIED


def test_the_submissions_row_adds_up_its_pairs() -> None:
    """Its calls and its verified calls are those against all baselines."""
    measurement = measure(problem())

    submission = row_of(measurement, "both", "submission")
    others = [row_of(measurement, "both", impl) for impl in ("eager", "compile")]
    assert submission.n == sum(row.n for row in others) == 2 * MIN_PAIRS
    assert submission.n_verified == sum(row.n_verified for row in others)


def test_twice_as_slow_is_a_ratio_of_one_half_and_half_the_points() -> None:
    """0.5 lies half-way between the anchors 0.25 and 0.75; of 4 points it pays 2."""
    measurement = measure(problem(EAGER), student_ms=2.0)
    (speed,) = measurement.speeds

    paid = pay(speed, max_points=4)
    rows = with_paid(measurement, [paid])

    assert speed.ratio == pytest.approx(0.5)
    assert paid.points == pytest.approx(2)
    assert [row.thresholds for row in rows if row.thresholds] == [(paid,)]
    assert row_of(Measurement(rows), "forward", "eager").thresholds == (paid,)


def test_each_threshold_gets_its_own_ratio() -> None:
    """Eager, compile and the roofline are paid from their own rows and phases."""
    measurement = measure(
        problem(EAGER, ROOFLINE, COMPILE_BOTH),
        student_ms=2.0,
        baseline_ms={"eager": 3.0, "compile": 1.5},
        peaks=Peaks(1e12, {"float32": 1e13}),
    )

    assert {s.threshold.baseline: s.ratio for s in measurement.speeds} == {
        "eager": pytest.approx(1.5),
        "roofline": pytest.approx(0.5),
        "compile": pytest.approx(0.75),
    }
    assert row_of(measurement, "forward", "submission").roofline_pct == pytest.approx(50)
    rows = with_paid(measurement, [pay(s, max_points=1) for s in measurement.speeds])
    assert {(r.phase, r.impl) for r in rows if r.thresholds} == {
        ("forward", "eager"),
        ("forward", "submission"),
        ("both", "compile"),
    }


def test_a_wide_interval_is_unstable_and_its_lower_bound_counts() -> None:
    """With 30 % noise the row says so, and the ratio paid is the interval's low end."""
    measurement = measure(problem(EAGER), noise=0.3)

    row = row_of(measurement, "forward", "eager")
    (speed,) = measurement.speeds
    assert row.status == "unstable"
    assert "its lower bound counts" in row.reason
    assert row.ci95 is not None
    assert speed.ratio == row.ci95[0] < (row.ratio or 0)


def replaying() -> Entry:
    """An entry that computes its first call and returns that output ever after."""
    kept: list[torch.Tensor] = []

    def entry(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        kept.append(x * w)
        return kept[0]

    return entry


def modifying(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Work in place."""
    return x.detach().mul_(w)


def crashing(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Raise."""
    raise ArithmeticError("out of luck")


@pytest.mark.parametrize(
    ("entry", "want"),
    [
        pytest.param(replaying(), "wrong_value", id="replays-an-old-output"),
        pytest.param(modifying, "modified_input", id="changes-its-input"),
        pytest.param(lambda x, w: x * w * 1.01, "wrong_value", id="one-percent-off"),
        pytest.param(crashing, "crashed: out of luck", id="raises-in-prepare"),
    ],
)
def test_a_wrong_submission_fails_its_rows_and_pays_nothing(entry: Entry, want: str) -> None:
    """Every row of the case and phase says why; the points stay in the maximum."""
    only_forward = dataclasses.replace(
        problem(EAGER),
        benchmark_cases=(
            dataclasses.replace(problem(EAGER).benchmark_cases[0], phases=("forward",)),
        ),
    )

    measurement = measure(only_forward, entry=entry)

    assert [row.status for row in measurement.rows] == ["failed"] * 3
    assert all(want in row.reason for row in measurement.rows)
    # the whole story stands once
    assert [row.impl for row in measurement.rows if "\n" in row.reason] == (
        [] if entry is crashing else ["submission"]
    )
    (speed,) = measurement.speeds
    paid = pay(speed, max_points=4)
    assert (paid.points, paid.share) == (0, 0)
    assert measurement.held == ""


def test_a_failure_in_one_phase_leaves_the_other() -> None:
    """A wrong gradient fails phase both; the forward is measured."""

    class HalfGradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x, w = ctx.saved_tensors
            return grads[0] * w / 2, (grads[0] * x).sum(0)

    measurement = measure(problem(), entry=HalfGradient.apply)

    assert row_of(measurement, "forward", "submission").status == "measured"
    assert row_of(measurement, "both", "submission").status == "failed"
    assert "wrong_gradient" in row_of(measurement, "both", "submission").reason


def test_forged_contents_are_held() -> None:
    """A reply whose checksum is not that of the fetched outputs needs a person's decision."""

    class Forger(Caller):
        def call(self, nonce: int) -> Called:
            return dataclasses.replace(super().call(nonce), checksum=1)

    problem_ = problem(EAGER)
    measurement = measure_problem(
        problem_,
        open_student=lambda case, phase: Forger(timer(eager, case, phase, 0.1).calls),
        open_baseline=lambda case, phase, _impl: timer(eager, case, phase, 1.0),
        gpu=GPU,
        device=torch.device("cpu"),
        passed=ALL,
    )

    assert "not those that were timed" in measurement.held


def test_a_baseline_that_cannot_run_is_the_graders_error() -> None:
    """Nobody loses points for it: the problem gets no score."""
    with pytest.raises(BaselineError, match="out of luck"):
        measure(problem(builtin=crashing))
    with pytest.raises(BaselineError, match="no baseline 'builtin'"):
        baseline(problem(), "builtin")


def test_a_threshold_against_an_unmeasured_roofline_is_the_graders_error() -> None:
    """Without peaks there is no fraction of them."""
    with pytest.raises(BaselineError, match="against roofline, which was not measured"):
        measure(problem(ROOFLINE))


def test_without_a_gpu_nothing_is_measured_and_says_so() -> None:
    """Rows give the reason, no process is opened, no speed can pay or cost."""
    measurement = measure(problem(EAGER), entry=crashing, gpu=None)

    assert {row.status for row in measurement.rows} == {"not_measured"}
    assert {row.reason for row in measurement.rows} == {bench.NO_GPU}
    assert measurement.speeds == ()


def test_an_uncalibrated_gpu_is_measured_and_pays_nothing() -> None:
    """Thresholds of another model do not hold; the row says so."""
    measurement = measure(problem(EAGER), gpu="NVIDIA T4")

    row = row_of(measurement, "forward", "submission")
    assert row.status == "measured"
    assert "no thresholds for NVIDIA T4" in row.reason
    assert measurement.speeds == ()


@pytest.mark.parametrize(
    ("passed", "forward", "both"),
    [
        pytest.param(frozenset(), "not_measured", "not_measured", id="nothing"),
        pytest.param(frozenset({"forward"}), "measured", "not_measured", id="forward-only"),
    ],
)
def test_a_wrong_dtype_is_not_timed_and_pays_nothing(
    passed: frozenset[Group], forward: str, both: str
) -> None:
    """Forward needs the forward tests, both the backward tests too; the points stay in."""
    measurement = measure(problem(EAGER, COMPILE_BOTH), passed={"float32": passed})

    assert row_of(measurement, "forward", "submission").status == forward
    assert row_of(measurement, "both", "submission").status == both
    assert "backward test in float32" in row_of(measurement, "both", "eager").reason
    paid = [pay(s, max_points=1) for s in measurement.speeds if s.threshold.phase == "both"]
    assert [(p.points, p.share) for p in paid] == [(0, 0)]


def test_progress_counts_comparisons() -> None:
    """Two phases against two baselines are four comparisons, each told before it starts."""
    told: list[tuple[int, int, str]] = []

    measure(problem(), progress=lambda done, total, what: told.append((done, total, what)))

    assert [(done, total) for done, total, _ in told] == [(i, 4) for i in range(5)]
    assert told[3][2] == "M4-N8-float32 both against compile"


def test_baselines_are_those_the_problem_has() -> None:
    """Compile is made from eager; a builtin of None is left out."""
    assert impls_of(problem()) == ("eager", "compile")
    assert impls_of(problem(builtin=torch.mul)) == ("eager", "builtin", "compile")


def test_roofline_is_the_slower_of_moving_and_computing() -> None:
    """At 1 TB/s and 10 TFLOP/s: 1 GB takes 1 ms, and so do 10 GFLOP."""
    peaks = Peaks(1e12, {"float32": 1e13})

    assert limit_ms(10**9, 10**6, "float32", peaks) == pytest.approx(1)
    assert limit_ms(10**6, 10**10, "float32", peaks) == pytest.approx(1)
    assert roofline_pct(10**9, 0, "float32", 4.0, peaks) == pytest.approx(25)


def test_peaks_come_from_the_probes_times() -> None:
    """A copy of 1 GiB in 1 ms moves 2 GiB; 8192**3 multiply-adds in 2 ms are half that a second."""

    class Probe:
        def __init__(self, ms: float) -> None:
            self.ms = ms

        def prepare(self) -> Prepared:
            return Prepared((), 0, 0)

        def call(self, nonce: int) -> Called:
            return Called(self.ms, 0, 0)

        def fetch(self) -> Fetched:
            raise NotImplementedError

    peaks = measure_peaks(lambda name, _dtype: Probe(1 if name == "copy" else 2), ["bfloat16"])

    assert peaks.bytes_per_s == pytest.approx(2**31 / 1e-3)
    assert peaks.flops_per_s == {"bfloat16": pytest.approx(2 * 8192**3 / 2e-3)}


def test_probes_compute_what_they_say() -> None:
    """The copy is new storage, the product a product, of the size said."""
    x = torch.randn(8, 8)

    copied, product = probe("copy")(x), probe("matmul")(x, x)

    assert torch.equal(copied, x)
    assert copied.data_ptr() != x.data_ptr()
    torch.testing.assert_close(product, x @ x)
    assert [spec.shape for spec in probe_specs("matmul", "bfloat16")] == [(8192, 8192)] * 2
    assert probe_specs("copy", "float32")[0].shape == (2**28,)


def test_settings_are_plain_and_named() -> None:
    """The card can store them."""
    assert settings()["measure.min_pairs"] == MIN_PAIRS
    assert all(isinstance(value, str | int | float | bool) for value in settings().values())
