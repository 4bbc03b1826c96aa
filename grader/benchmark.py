"""Opens the timed processes of a grading and measures its problems in them.

Where nothing can be measured, every row says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import torch

from grader.grading import Grading
from grader.measure.bench import measure_problem
from grader.measure.implementations import BaselineError, Impl
from grader.measure.pairs import baseline_faults
from grader.measure.roofline import Peaks, measure_peaks
from grader.measure.rows import Measurement, without_time
from grader.sandbox.device_buffer import Buffers
from grader.sandbox.launcher import LaunchError
from grader.sandbox.timers import Baselines, WorkerTimer, student_timer
from grader.spec import BenchmarkCase, Dtype, Group, Phase, Problem


@dataclass(frozen=True)
class Clocks:
    """What times the calls: "cuda", or made-up milliseconds for runs without a GPU."""

    student: str | float = "cuda"
    baseline: str | float = "cuda"


CUDA_CLOCKS = Clocks()


class Benchmark:
    """The timed processes of one grading.

    Args:
        grading: Names the submission.
        skip: Why nothing is measured; "" measures where there is a GPU.
        gpu: Model as CUDA names it, None where there is none.
        clocks: What times the calls.
    """

    def __init__(
        self,
        grading: Grading,
        *,
        skip: str = "",
        gpu: str | None = None,
        clocks: Clocks = CUDA_CLOCKS,
    ) -> None:
        self._grading = grading
        self._skip = skip
        self._gpu = gpu
        self._clocks = clocks
        self._baselines = Baselines(
            grading.launcher,
            "cuda" if grading.device == "cuda" else "sim",
            grading.request.reference,
            clocks.baseline,
        )
        self._buffers = Buffers() if grading.device == "cuda" else None
        self._peaks: dict[Dtype, Peaks] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._baselines.close()
        if self._buffers is not None:
            self._buffers.close()

    def measure(
        self,
        problem: Problem,
        passed: Mapping[Dtype, frozenset[Group]],
        tell: Callable[[str], None],
    ) -> tuple[Measurement, str]:
        """Time one problem; the second value says what went wrong with the grader, or "".

        Args:
            problem: Its thresholds merged in.
            passed: Per dtype, the groups of which every checkable test passed.
            tell: Told what goes on.
        """
        if self._skip:
            return self._skipped(problem), ""
        if self._gpu is not None:
            tell(f"{problem.name}: measuring")
        try:
            measurement = measure_problem(
                problem,
                open_student=lambda case, phase: self._student(problem, case, phase),
                open_baseline=lambda case, phase, impl: self._baseline(problem, case, phase, impl),
                gpu=self._gpu,
                device=torch.device(self._grading.device),
                passed=passed,
                peaks=self._limits(problem),
                progress=lambda done, total, what: (
                    tell(f"{problem.name}: measuring {done} of {total}, {what}") if what else None
                ),
            )
        except (BaselineError, LaunchError) as error:
            return Measurement(), f"{problem.name}: {error}"
        except Exception as error:  # noqa: BLE001  whatever is wrong with us must not cost the other problems
            return Measurement(), f"{problem.name}: {type(error).__name__}: {error}"
        return measurement, ""

    def _skipped(self, problem: Problem) -> Measurement:
        measurement = Measurement()
        for case in problem.benchmark_cases:
            for phase in case.phases:
                measurement += without_time(
                    problem, case, phase, "not_measured", self._skip, gpu=None
                )
        return measurement

    def _student(self, problem: Problem, case: BenchmarkCase, phase: Phase) -> WorkerTimer:
        student = self._grading.student(problem)
        return student_timer(student, problem, case, phase, self._clocks.student, self._buffers)

    def _baseline(
        self, problem: Problem, case: BenchmarkCase, phase: Phase, impl: Impl
    ) -> WorkerTimer:
        return self._baselines.timer(problem, case, phase, impl)

    def _limits(self, problem: Problem) -> Peaks | None:
        """The limits of this GPU for the problem's dtypes, each measured once."""
        if self._gpu is None or self._clocks.baseline != "cuda":
            return None
        dtypes = {case.dtype for case in problem.benchmark_cases}
        with baseline_faults():
            for dtype in sorted(dtypes - self._peaks.keys()):
                self._peaks[dtype] = measure_peaks(self._baselines.probe_timer, [dtype])
        flops = {dtype: self._peaks[dtype].flops_per_s[dtype] for dtype in dtypes}
        return Peaks(max(peak.bytes_per_s for peak in self._peaks.values()), flops)
