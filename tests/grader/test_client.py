"""grader.sandbox.client: whose fault it is that a worker ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from grader.sandbox.client import Student, StudentFaultError
from grader.sandbox.launcher import Launcher, LaunchError, Process
from grader.sandbox.line import Backend, workers
from grader.scorecard import Verdict
from grader.spec import Case

CASE = Case({"N": 1}, "float32", why="one element", timeout_s=10)


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    """One launcher, ended after the test."""
    launcher = Launcher()
    yield launcher
    launcher.close()


def test_worker_that_dies_before_it_saw_the_submission_is_our_fault(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that kills workers as they start costs no points; a healthy one then answers."""
    path = tmp_path / "f.py"
    path.write_text("def f(x):\n    return 2 * x\n")
    student = Student(workers(launcher), path, "f")
    start = launcher.start

    def killed(backend: str) -> Process:
        process = start(backend)
        os.kill(process.pid, signal.SIGKILL)
        return process

    monkeypatch.setattr(launcher, "start", killed)
    with pytest.raises(LaunchError, match="did not start"):
        student.forward({"x": torch.ones(1)}, backend="sim", case=CASE)
    monkeypatch.undo()

    assert not student.attempts
    outcome = student.forward({"x": torch.ones(1)}, backend="sim", case=CASE)
    assert outcome.outputs["y"].unpack().tolist() == [2.0]
    student.close()


@pytest.mark.parametrize(("backend", "want_s"), [("sim", 10.0), ("cuda", 110.0)])
def test_compiling_on_a_gpu_gets_time_of_its_own(
    launcher: Launcher,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    backend: Backend,
    want_s: float,
) -> None:
    """A case's limit is for running; on CUDA the first call compiles and may tune, too."""
    (tmp_path / "f.py").write_text("def f(x):\n    return 2 * x\n")
    student = Student(workers(launcher), tmp_path / "f.py", "f")
    limits: list[float] = []

    def ask(op: str, header: object, tensors: object, limit_backend: str, limit_s: float) -> None:
        limits.append(limit_s)
        raise StudentFaultError(Verdict.TIMEOUT, "only the limit matters here")

    monkeypatch.setattr(student, "_load", lambda _backend, *, lift: None)
    monkeypatch.setattr(student, "_ask", ask)

    with pytest.raises(StudentFaultError):
        student.forward({"x": torch.ones(1)}, backend=backend, case=CASE)

    assert limits == [want_s]
