"""One grading, start to end: the tests in pytest, then the benchmarks, then the scorecard.

The card is written after every problem, atomically, so that a killed run leaves a valid one that
says it is partial.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
import torch
from rich.console import Console

from grader import discover
from grader.benchmark import Benchmark
from grader.card import Results, build
from grader.checks import Trial
from grader.grading import Grading, Request, UsageError, opened
from grader.report.progress import GradingProgress
from grader.scorecard import Check, Scorecard, Verdict

TESTS = discover.ROOT / "tests" / "submission"
RUNNING = "the grading is still running"
# more than a buffer or a page, so that what did not fit a moment ago does not fit now
PROBE_BYTES = 2**20

# a user's own options and plugins of pytest must not change what is run
PYTEST_ENVIRONMENT = {
    "PYTEST_ADDOPTS": "",
    "PYTEST_PLUGINS": "",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}
PYTEST_ARGUMENTS = (
    # a warning must not cost anybody a grade
    *("-W", "default"),
    # wants an open stderr
    *("-p", "no:faulthandler"),
    *("-p", "no:cacheprovider"),
    *("-p", "pytest_jsonreport.plugin"),
)


def grade(request: Request, out: Path, console: Console, *, benchmark: bool = True) -> Scorecard:
    """Grade a submission and leave ``scorecard.json`` in ``out``.

    Args:
        request: What to grade.
        out: Made where it is missing.
        console: For progress.
        benchmark: Whether speed is measured where there is a GPU.

    Raises:
        UsageError: If there is nothing to grade as asked, or no card can be written.
        KeyboardInterrupt: After the partial card is written.
        OSError: If later the card cannot be written, or there is no room for temporary files.
    """
    if request.direct:
        raise UsageError(
            "student code in the grader's own process is for debugging, never for marks"
        )
    with opened(request) as grading:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--out {out}: {error.strerror}; name another folder") from error
        expected = Counter(trial.problem.name for trial in grading.trials())
        with (
            _benchmark(grading, wanted=benchmark) as timed,
            GradingProgress(expected, console) as progress,
        ):
            run = Run(grading, out / "scorecard.json", progress, timed)
            try:
                run.write(interrupted=RUNNING)
            except OSError as error:
                raise UsageError(str(error)) from error
            return run.run()


def _benchmark(grading: Grading, *, wanted: bool) -> Benchmark:
    if not wanted:
        return Benchmark(grading, skip="not asked for: --no-benchmark")
    if grading.request.case is not None:
        return Benchmark(grading, skip="not asked for: a single case is graded without speed")
    if grading.device == "cuda":
        return Benchmark(grading, gpu=torch.cuda.get_device_name())
    if torch.cuda.is_available():
        return Benchmark(grading, skip="not asked for: the GPU of this machine was not used")
    return Benchmark(grading)


class Recorder:
    """The pytest plugin that brings the grading in and takes each test's record as it ends."""

    def __init__(self, run: Run) -> None:
        self.grading = run.grading
        self._run = run
        self._started_s = 0.0

    def pytest_runtest_logstart(self) -> None:
        """Begin the time of a test."""
        self._started_s = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The last report of a test carries its record."""
        if report.when == "teardown":
            trial, check = report.kernelgrade
            self._run.add(trial, check, time.monotonic() - self._started_s)


class Run:
    """One grading with its results and its card on disk."""

    def __init__(
        self, grading: Grading, card_path: Path, progress: GradingProgress, benchmark: Benchmark
    ) -> None:
        self.grading = grading
        self.results = Results(grading)
        self._card_path = card_path
        self._progress = progress
        self._benchmark = benchmark

    def add(self, trial: Trial, check: Check | None, duration_s: float) -> None:
        """Take one record; none at all is a fault of the grader."""
        if check is None:
            cause = f"{trial.id}: the test left no record; a fault of the grader, costs no points"
            check = Check(verdict=Verdict.GRADER_ERROR, cause=cause)
        self.results.add(trial, check, duration_s)
        self._progress.test_done(trial.problem.name, trial.group, check.verdict)
        if self.results.is_complete(trial.problem):
            self.write(interrupted=RUNNING)

    def run(self) -> Scorecard:
        """Grade; Ctrl-C leaves a valid partial card and is raised again."""
        try:
            self._test()
            self._measure()
        except KeyboardInterrupt:
            self.results.interrupted = "interrupted"
            self.write()
            raise
        return self.write()

    def _test(self) -> None:
        with tempfile.TemporaryDirectory(prefix="kernelgrade-report-") as folder:
            report = Path(folder) / "report.json"
            arguments = [str(TESTS), f"--rootdir={discover.ROOT}", *PYTEST_ARGUMENTS]
            arguments += ["--json-report", f"--json-report-file={report}"]
            os.environ.update(PYTEST_ENVIRONMENT)
            said = io.StringIO()
            # pytest's own report is for a terminal; the card holds all of it
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                code = pytest.main(arguments, plugins=[Recorder(self)])
            if code == pytest.ExitCode.INTERRUPTED:
                raise KeyboardInterrupt
            self._cross_check(code, report, said.getvalue())

    def _cross_check(self, code: int, report: Path, said: str) -> None:
        """Two counts of the same run must agree: what came test by test, and pytest's report."""
        n_in_report = _n_tests_in(report)
        ended_well = code in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        if not ended_well or n_in_report != self.results.n_reported():
            error = (
                f"pytest ended with {code!r}; {self.results.n_reported()} records came,"
                f" {n_in_report} tests are in its report\n{said[-2000:]}"
            )
            self.results.errors |= {problem.name: error for problem in self.grading.problems}

    def _measure(self) -> None:
        for problem in self.grading.problems:
            if not problem.benchmark_cases or problem.name in self.results.errors:
                continue
            started_s = time.monotonic()
            measurement, error = self._benchmark.measure(
                problem, self.results.passed(problem), self._progress.phase
            )
            self.results.measurements[problem.name] = measurement
            if error:
                self.results.errors[problem.name] = error
            self.results.durations[f"{problem.name} benchmark"] = time.monotonic() - started_s
            self.write(interrupted=RUNNING)

    def write(self, interrupted: str = "") -> Scorecard:
        """The card as things stand, written over the last one."""
        card = build(self.results, interrupted or self.results.interrupted)
        _write_atomically(self._card_path, card.model_dump_json(indent=2) + "\n")
        return card


def _n_tests_in(report: Path) -> int:
    """How many tests pytest's report holds; -1 if there is none that can be read.

    Raises:
        OSError: If the folder for temporary files is full. The plugin that writes the report leaves
            half of one then, and goes on.
    """
    try:
        return len(json.loads(report.read_text(encoding="utf-8")).get("tests", []))
    except (FileNotFoundError, ValueError):
        pass
    try:
        (report.parent / "probe").write_bytes(bytes(PROBE_BYTES))
    except OSError as error:
        raise OSError(
            f"no space left in TMPDIR ({tempfile.gettempdir()}): {error.strerror}; make room there or"
            " set TMPDIR to another folder"
        ) from error
    return -1


def _write_atomically(path: Path, text: str) -> None:
    """Whoever reads ``path`` sees the old card or the new one, also after a crash.

    Raises:
        OSError: If there is no room, or no leave to write; says what to do.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        # by itself it names a file beside the card, or none
        raise OSError(
            f"--out {path.parent}: {error.strerror}; make room there or name another folder"
        ) from error
