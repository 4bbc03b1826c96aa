"""Times one problem: every benchmark case in every phase against every baseline.

Verifier's side; starts no process: the caller opens timers. Not covered yet: a second clock,
controls, clock speed and throttling of the GPU, and lines of the inputs that appear late.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch

from grader.measure.constants import DEFAULT_PAIRS
from grader.measure.implementations import Impl, impls_of
from grader.measure.pairs import Samples, Timer, WorkerFault, baseline_faults, compare
from grader.measure.roofline import Peaks
from grader.measure.rows import Measurement, Timings, measured, without_time
from grader.measure.threshold_file import check
from grader.measure.timed_calls import Prepared
from grader.measure.verification import verifier
from grader.scorecard import Check, Verdict
from grader.spec import BenchmarkCase, Dtype, Group, Phase, Problem
from grader.thresholds import NEEDED_GROUPS

OpenStudent: TypeAlias = Callable[[BenchmarkCase, Phase], Timer]
OpenBaseline: TypeAlias = Callable[[BenchmarkCase, Phase, Impl], Timer]
Progress: TypeAlias = Callable[[int, int, str], None]
"""Comparisons done, comparisons in all, what comes next."""

NO_GPU = "there is no GPU here, and time on another processor says nothing about one"


def measure_problem(
    problem: Problem,
    *,
    open_student: OpenStudent,
    open_baseline: OpenBaseline,
    gpu: str | None,
    device: torch.device,
    passed: Mapping[Dtype, frozenset[Group]],
    peaks: Peaks | None = None,
    n_pairs: int = DEFAULT_PAIRS,
    rng: random.Random | None = None,
    progress: Progress | None = None,
) -> Measurement:
    """Time a submission on one problem.

    Args:
        problem: Its thresholds merged in.
        open_student: Opens timed calls of the submission; opened once per case and phase.
        open_baseline: Likewise of a baseline, in another process.
        gpu: Model as CUDA names it; None where there is none, then nothing is measured.
        device: Where the verifier remakes inputs and runs the oracle; of the timers' type.
        passed: Per dtype, the groups of which every checkable test passed. A case whose dtype lacks the
            groups its phase needs is not timed and pays nothing.
        peaks: Measured limits of this GPU; None leaves the roofline out.
        n_pairs: Most pairs per comparison.
        rng: For tests. By default the system's, of which no draw tells the next.
        progress: Told before each comparison and at the end.

    Raises:
        BaselineError: If a baseline could not be timed: the grader's fault.
        ValueError: If a threshold could never be paid.
    """
    check(problem)
    rng = rng or random.SystemRandom()
    tell = progress or (lambda _done, _total, _what: None)
    impls = impls_of(problem)
    todo = [(case, phase) for case in problem.benchmark_cases for phase in case.phases]
    total = len(todo) * len(impls)
    measurement = Measurement()
    for i, (case, phase) in enumerate(todo):
        reason = _why_not(case, phase, gpu, passed)
        if gpu is None or reason:
            measurement += without_time(problem, case, phase, "not_measured", reason, gpu=gpu)
            continue

        def next_is(j: int, impl: Impl, at: int = i, what: str = f"{case.id} {phase}") -> None:
            tell(at * len(impls) + j, total, f"{what} against {impl}")

        try:
            timings = _time(
                problem,
                case,
                phase,
                open_student=open_student,
                open_baseline=open_baseline,
                device=device,
                n_pairs=n_pairs,
                rng=rng,
                next_is=next_is,
            )
        except WorkerFault as fault:
            measurement += _failed(problem, case, phase, gpu, fault.check)
        else:
            measurement += measured(problem, case, phase, timings, gpu=gpu, peaks=peaks)
    tell(total, total, "")
    return measurement


def _why_not(
    case: BenchmarkCase,
    phase: Phase,
    gpu: str | None,
    passed: Mapping[Dtype, frozenset[Group]],
) -> str:
    if gpu is None:
        return NO_GPU
    groups = passed.get(case.dtype, frozenset())
    missing = [group for group in NEEDED_GROUPS[phase] if group not in groups]
    if not missing:
        return ""
    return f"not every {' and '.join(missing)} test in {case.dtype} passed"


def _time(
    problem: Problem,
    case: BenchmarkCase,
    phase: Phase,
    *,
    open_student: OpenStudent,
    open_baseline: OpenBaseline,
    device: torch.device,
    n_pairs: int,
    rng: random.Random,
    next_is: Callable[[int, Impl], None],
) -> Timings:
    """Time one case in one phase against all baselines; WorkerFault is the submission's."""
    verify = verifier(problem, case, phase, device)
    student = open_student(case, phase)
    student_prepared = student.prepare()
    prepared: dict[Impl, Prepared] = {}
    pairs: dict[Impl, Samples] = {}
    for j, impl in enumerate(impls_of(problem)):
        next_is(j, impl)
        with baseline_faults():
            baseline = open_baseline(case, phase, impl)
            prepared[impl] = baseline.prepare()
        samples = compare(student, baseline, verify=verify, rng=rng, n_pairs=n_pairs)
        if samples.failure is not None:
            raise WorkerFault(samples.failure)
        pairs[impl] = samples
    return Timings(student_prepared, prepared, pairs)


def _failed(
    problem: Problem, case: BenchmarkCase, phase: Phase, gpu: str, check_: Check
) -> Measurement:
    reason = f"{check_.verdict}: {check_.cause}"
    failed = without_time(problem, case, phase, "failed", reason, gpu=gpu)
    held = reason if check_.verdict is Verdict.INTEGRITY_HOLD else ""
    return failed + Measurement(held=held)
