"""One grading in progress: the problems, the submission, and a process for each problem.

What the command line, the submission tests and the harness's own tests share. Writes no scorecard.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shlex
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch

from grader import checks, discover, inputs, settings, verify
from grader.checks import Trial
from grader.sandbox import compiling, direct
from grader.sandbox.client import Student
from grader.sandbox.compiling import Compiler
from grader.sandbox.launcher import Launcher
from grader.sandbox.line import Connect, workers
from grader.scorecard import Attempt, Check, Isolation, Verdict
from grader.spec import GROUPS, Case, Group, Inputs, Problem
from grader.submission import Taken, readable, take

Device = Literal["cpu", "cuda"]


class UsageError(ValueError):
    """What was asked for cannot be graded: no such folder, problem or case."""


@dataclass(frozen=True)
class Request:
    """What to grade.

    Attributes:
        path: The submission.
        problems: Names; empty means all.
        case: Only this case id.
        device: "auto" takes the GPU where there is one.
        seed: Of the inputs; None draws a secret one.
        reference: The folder of problems.
        direct: Run student code in this process, from its own files: for debugging, never for marks.
    """

    path: Path
    problems: tuple[str, ...] = ()
    case: str | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    seed: int | None = None
    reference: Path = discover.REFERENCE
    direct: bool = False


@dataclass
class Grading:
    """A grading in progress; made by ``opened``."""

    request: Request
    problems: tuple[Problem, ...]
    taken: Taken
    device: Device
    launcher: Launcher
    connect: Connect
    seed: int
    attempts: list[Attempt] = field(default_factory=list)
    isolation: Isolation | None = None
    arch: int = settings.DEFAULT_ARCH
    compilers: dict[str, Compiler] = field(default_factory=dict)
    _student: tuple[str, Student] | None = None

    def trials(self, groups: Sequence[Group] = GROUPS) -> list[Trial]:
        """Every test of the grading, in order: by problem, group, case."""
        return [
            Trial(problem, case, group, self._rerun(problem, case))
            for problem in self.problems
            for group in groups
            for case in problem.cases_in(group)
            if self.request.case in {None, case.id}
        ]

    def student(self, problem: Problem) -> Student:
        """The process of one problem; the one before is ended."""
        if self._student is None or self._student[0] != problem.name:
            self.end_student()
            target: Literal["sim", "cuda"] = "cuda" if self.device == "cuda" else "sim"
            file = self.taken.file(problem.name)
            if self.request.direct:
                # where a debugger's breakpoints are set
                file = self.taken.originals.get(file.name, file)
            # where the kernels run on a GPU, it has compiled them; a debugger wants no second process
            elif target == "sim" and problem.kind == "kernel" and compiling.is_available():
                self.compilers.setdefault(problem.name, Compiler(self.connect, file, self.arch))
            student = Student(
                self.connect,
                file,
                problem.name,
                target=target,
                compiler=self.compilers.get(problem.name),
                scenario=self._scenario(problem),
            )
            self._student = (problem.name, student)
        return self._student[1]

    def _scenario(self, problem: Problem) -> Path | None:
        if problem.kind == "kernel":
            return None
        return self.request.reference.resolve() / problem.name / "scenario.py"

    def inputs(self, trial: Trial) -> Inputs:
        """The inputs of a test: the same for all groups of a case."""
        return inputs.draw(trial.problem, trial.case, self.seed)

    def rng(self, trial: Trial) -> torch.Generator:
        """What draws the gradients of a test."""
        return inputs.rng_for(self.seed, trial.id)

    def judge(self, trial: Trial) -> Check:
        """Run one test. An exception of ours becomes a grader error that says so."""
        try:
            student = self.student(trial.problem)
            check = checks.judge(trial, student, self.inputs(trial), self.rng(trial))
            return self.finished(trial, student, check)
        except Exception as error:  # noqa: BLE001  whatever is wrong with us must not cost points
            return grader_error(trial.id, error)

    def finished(self, trial: Trial, student: Student, check: Check) -> Check:
        """The check of a test that has run, with what the student's code printed meanwhile."""
        self.isolation = self.isolation or student.isolation
        printed = student.printed()
        # a hidden case's values could be printed, too
        return check if trial.context.hidden else verify.with_printed(check, printed)

    def end_student(self) -> None:
        """End the running process."""
        if self._student is not None:
            self._student[1].close()
            self.attempts += self._student[1].attempts
            self._student = None

    def all_attempts(self) -> list[Attempt]:
        """Processes that ended before their time, so far."""
        running = self._student[1].attempts if self._student is not None else []
        return [*self.attempts, *running]

    def _rerun(self, problem: Problem, case: Case) -> str:
        if case.visibility == "hidden":
            return ""
        # relative: the command is for the folder that make runs in
        path = readable(os.path.relpath(self.request.path))
        submission = "" if path == "assignment" else f"SUBMISSION={shlex.quote(path)} "
        return f'make grade {submission}ARGS="--problem {problem.name} --case {case.id}"'


def grader_error(where: str, error: BaseException) -> Check:
    """The check that blames the grader, and names the line of the problem where it happened."""
    what = f"{type(error).__name__}: {error}"[:4000]
    if place := _place_in_reference(error):
        what += f"\n  raised at {place}"
    cause = (
        f"{where}: {what}\n  This is a fault of the grader, not of your code; it costs no points."
    )
    return Check(verdict=Verdict.GRADER_ERROR, cause=cause)


def _place_in_reference(error: BaseException) -> str:
    """The last line of problem.py or hidden.py that the error came through; "" if none."""
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        # the names that grader.discover gives to what it imports
        if str(frame.f_globals.get("__name__")).startswith("reference."):
            path = Path(frame.f_code.co_filename)
            place = f"{path.parent.name}/{path.name}:{line} in {frame.f_code.co_name}"
    return place


def resolve_device(device: Literal["auto", "cpu", "cuda"]) -> Device:
    """Where forward and backward run.

    Raises:
        UsageError: If CUDA is asked for and not there.
    """
    missing = ""
    if not torch.cuda.is_available():
        missing = "torch finds no CUDA device here"
    elif importlib.util.find_spec("triton") is None:
        missing = "Triton is not installed"
    if device == "cuda" and missing:
        raise UsageError(f"--device cuda: {missing}; `python -m grader doctor` says more")
    return "cpu" if missing or device == "cpu" else "cuda"


def _names(request: Request) -> tuple[str, ...]:
    """The problems asked for; a single file named as a problem asks for that one."""
    known = discover.problem_names(request.reference)
    if not request.problems and request.path.is_file() and request.path.stem in known:
        return (request.path.stem,)
    return request.problems


@contextlib.contextmanager
def opened(request: Request, launcher: Launcher | None = None) -> Iterator[Grading]:
    """Take the submission, find the problems, and end all processes afterwards.

    Args:
        request: What to grade.
        launcher: Starts the processes and is left open; None starts one of its own.

    Raises:
        UsageError: If there is nothing to grade as asked.
    """
    device = resolve_device(request.device)
    with contextlib.ExitStack() as afterwards:
        folder = Path(
            afterwards.enter_context(
                tempfile.TemporaryDirectory(
                    prefix="kernelgrade-submission-", ignore_cleanup_errors=True
                )
            )
        )
        if launcher is None:
            launcher = Launcher()
            afterwards.callback(launcher.close)
        try:
            problems = discover.load_problems(_names(request), request.reference)
            names = [problem.name for problem in problems]
            taken = take(request.path, folder, names)
            arch = settings.course_arch(discover.ROOT / "pyproject.toml")
            connect = workers(launcher)
            connect = direct.connect(connect) if request.direct else connect
        except ValueError as error:
            raise UsageError(str(error)) from error
        seed = secrets.randbits(48) if request.seed is None else request.seed
        grading = Grading(request, problems, taken, device, launcher, connect, seed, arch=arch)
        afterwards.callback(grading.end_student)
        if not grading.trials():
            known = ", ".join(case.id for problem in problems for case in problem.cases)
            raise UsageError(f"no test has the case id {request.case!r}; cases: {known}")
        yield grading
