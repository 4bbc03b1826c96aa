"""The whole benchmark path over real processes, with a clock that makes its times up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grader.benchmark import Benchmark, Clocks
from grader.card import Results, build
from grader.checks import Trial
from grader.grading import Grading, Request, opened
from grader.measure.constants import MIN_PAIRS
from grader.measure.threshold_file import dump
from grader.scorecard import PerformanceRow, Scorecard, Status, ThresholdResult
from grader.spec import Threshold
from tests.grader.course import Course

GPU = "made-up GPU"
PROBLEM = '''
"""Cubes a matrix: forward and backward."""

from __future__ import annotations

import torch

from grader.spec import BenchmarkCase, Case, InputSpec, Problem, Tolerance, Traffic

X = InputSpec("x", (16, 8), "float32", requires_grad=True)

PROBLEM = Problem(
    name="cube",
    kind="kernel",
    points=100,
    differentiable=True,
    cases=(Case({"M": 3, "N": 5}, "float32", why="any", groups=frozenset({"forward", "backward"})),),
    make_inputs=lambda case, rng: {"x": torch.randn(case.dims["M"], case.dims["N"], generator=rng)},
    oracle=lambda x: x.double() ** 3,
    tolerance=lambda case, output: Tolerance(atol=1e-6, rtol=1e-5),
    min_bytes=lambda case, phase: 8 * case.dims["M"] * case.dims["N"],
    flops=lambda case, phase: 2 * case.dims["M"] * case.dims["N"],
    traffic=lambda case, phase: Traffic(10**6, 10**6),
    baselines={"eager": lambda x: x * x * x, "builtin": lambda x: x**3},
    benchmark_cases=(
        BenchmarkCase({"M": 16, "N": 8}, "float32", inputs=(X,), phases=("forward", "both")),
    ),
)
'''
ANCHORS = ((0.5, 0.0), (1.5, 1.0))


@pytest.fixture(scope="module")
def course(new_course: Callable[..., Course]) -> Course:
    """One problem with a threshold for each phase."""
    made = new_course()
    folder = made.root / "reference" / "cube"
    folder.mkdir(parents=True)
    (folder / "problem.py").write_text(PROBLEM)
    thresholds = tuple(
        Threshold(gpu=GPU, baseline="eager", phase=phase, anchors=ANCHORS)
        for phase in ("forward", "both")
    )
    dump({"M16-N8-float32": thresholds}, folder / "thresholds.json")
    return made


@pytest.fixture
def measured(course: Course, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Scorecard]:
    """Grade a file, student and baseline at made-up speeds; against eager alone, for time."""
    monkeypatch.setattr("grader.measure.bench.impls_of", lambda _problem: ("eager",))

    def measure(text: str, *, student_ms: float, baseline_ms: float) -> Scorecard:
        course.submit({"cube.py": text})
        request = Request(
            course.root / "assignment", device="cpu", seed=1, reference=course.root / "reference"
        )
        with (
            opened(request) as grading,
            Benchmark(grading, gpu=GPU, clocks=Clocks(student_ms, baseline_ms)) as benchmark,
        ):
            return graded(grading, benchmark)

    return measure


def graded(grading: Grading, benchmark: Benchmark) -> Scorecard:
    """Test, measure, score, as the runner does."""
    results = Results(grading)
    trial: Trial
    for trial in grading.trials():
        results.add(trial, grading.judge(trial), 0.0)
    (problem,) = grading.problems
    measurement, error = benchmark.measure(problem, results.passed(problem), lambda _what: None)
    results.measurements["cube"] = measurement
    if error:
        results.errors["cube"] = error
    return build(results)


def rows(card: Scorecard, impl: str) -> list[PerformanceRow]:
    """The rows of one implementation."""
    return [row for row in card.performance if row.impl == impl]


HONEST = "def cube(x):\n    return x * x * x\n"


@pytest.mark.slow
def test_as_fast_as_eager_earns_half(measured: Callable[..., Scorecard]) -> None:
    """At ratio 1 the anchors (0.5, 0), (1.5, 1) pay half of 25 points; every row is verified."""
    card = measured(HONEST, student_ms=1.0, baseline_ms=1.0)

    assert card.status is Status.GRADED
    for row in rows(card, "eager"):
        assert row.n >= MIN_PAIRS
        assert row.n_verified > 0
        assert row.ratio == pytest.approx(1.0, abs=0.003)
    paid = [t for row in rows(card, "eager") for t in row.thresholds]
    assert [t.phase for t in paid] == ["forward", "both"]
    assert sum(t.max_points for t in paid) == pytest.approx(25)
    assert sum(t.points for t in paid) == pytest.approx(12.5, abs=0.1)


@pytest.mark.slow
def test_twice_as_slow_earns_nothing(measured: Callable[..., Scorecard]) -> None:
    """Half of eager's speed is the lower anchor."""
    card = measured(HONEST, student_ms=2.0, baseline_ms=1.0)

    assert sum(t.points for row in rows(card, "eager") for t in row.thresholds) < 0.2
    assert {row.status for row in rows(card, "eager")} == {"measured"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(
            "last = [None]\n"
            "def cube(x):\n"
            "    if x.shape[0] == 3 or last[0] is None:\n"
            "        last[0] = x * x * x\n"
            "    y = last[0] if x.shape[0] == 16 and last[0].shape == x.shape else x * x * x\n"
            "    last[0] = (x * x * x).detach()\n"
            "    return y if y.requires_grad == x.requires_grad else x * x * x\n",
            "are wrong",
            id="replays-the-last-answer",
        ),
        pytest.param(
            "def cube(x):\n    if x.shape[0] == 16:\n        raise ValueError('too big')\n"
            "    return x * x * x\n",
            "ValueError: too big",
            id="raises-at-the-benchmark-size",
        ),
        pytest.param(
            "def cube(x):\n    y = x * x * x\n"
            "    if x.shape[0] == 16:\n        x.data.zero_()\n    return y\n",
            "changed its inputs",
            id="changes-its-input",
        ),
        pytest.param(
            "import os\n"
            "def cube(x):\n    if x.shape[0] == 16:\n        os._exit(0)\n    return x * x * x\n",
            "ended the process",
            id="exits-at-the-benchmark-size",
        ),
    ],
)
def test_wrong_timed_calls_pay_nothing(
    measured: Callable[..., Scorecard], text: str, words: str
) -> None:
    """Right in the tests and wrong when timed: the tests keep their points, speed pays nothing."""
    card = measured(text, student_ms=0.1, baseline_ms=1.0)

    failed = [row for row in rows(card, "eager") if row.phase == "forward"]
    assert card.status is Status.GRADED
    assert [row.status for row in failed] == ["failed"]
    assert words in failed[0].reason
    assert failed[0].thresholds[0].points == 0
    assert failed[0].thresholds[0].max_points > 0
    assert all(test.verdict == "passed" for test in card.problems[0].tests)


@pytest.mark.slow
def test_wrong_values_are_not_timed(measured: Callable[..., Scorecard]) -> None:
    """Speed without correctness earns nothing and is not measured."""
    card = measured("def cube(x):\n    return x * x\n", student_ms=0.1, baseline_ms=1.0)

    assert {row.status for row in card.performance} == {"not_measured"}
    assert all("did not pass" in t.reason or "passed" in t.reason for t in paid_of(card))
    assert sum(t.points for t in paid_of(card)) == 0


@pytest.mark.slow
def test_broken_baseline_is_the_graders_fault(
    new_course: Callable[..., Course], tmp_path: Path
) -> None:
    """A baseline that cannot run leaves the problem without a score, not the student without points."""
    course = new_course()
    folder = course.root / "reference" / "cube"
    folder.mkdir(parents=True)
    broken = PROBLEM.replace("lambda x: x * x * x", "lambda x: x.no_such_method()")
    (folder / "problem.py").write_text(broken)
    course.submit({"cube.py": HONEST})
    request = Request(
        course.root / "assignment", device="cpu", seed=1, reference=course.root / "reference"
    )

    with (
        opened(request) as grading,
        Benchmark(grading, gpu=GPU, clocks=Clocks(1.0, 1.0)) as benchmark,
    ):
        card = graded(grading, benchmark)

    assert card.status is Status.GRADER_ERROR
    assert "no_such_method" in card.problems[0].reason


@pytest.mark.slow
def test_broken_oracle_is_the_graders_fault(
    measured: Callable[..., Scorecard], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception of ours while timing becomes the problem's grader error, and ends nothing else."""

    def broken(*_: object) -> None:
        raise RuntimeError("the oracle ran out of memory")

    monkeypatch.setattr("grader.measure.bench.verifier", broken)

    card = measured(HONEST, student_ms=1.0, baseline_ms=1.0)

    assert card.status is Status.GRADER_ERROR
    assert "the oracle ran out of memory" in card.problems[0].reason


def paid_of(card: Scorecard) -> list[ThresholdResult]:
    """All threshold results of a card."""
    return [t for row in card.performance for t in row.thresholds]
