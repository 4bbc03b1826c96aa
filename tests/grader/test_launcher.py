"""grader.sandbox.launcher: what a worker may do to the process that forked it, and leave behind."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from grader.sandbox.client import Student, StudentFaultError
from grader.sandbox.launcher import Launcher
from grader.sandbox.line import workers
from grader.scorecard import Verdict
from grader.spec import Case

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")

CASE = Case({"N": 1}, "float32", why="one element", timeout_s=10)
ESCAPE = """
import os, time

def f(x):
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(write, str(os.getpid()).encode())
            time.sleep(600)
        os._exit(0)
    os.wait()
    return x * int(os.read(read, 16))
"""


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    """One launcher, ended after the test."""
    launcher = Launcher()
    yield launcher
    launcher.close()


@pytest.fixture
def student(launcher: Launcher, tmp_path: Path) -> Iterator[Callable[[str], Student]]:
    """Makes the student of a file with this text."""
    students: list[Student] = []

    def make(text: str) -> Student:
        path = tmp_path / f"f{len(students)}.py"
        path.write_text(text)
        students.append(Student(workers(launcher), path, "f"))
        return students[-1]

    yield make
    for made in students:
        made.close()


def _call(student: Student) -> float:
    outcome = student.forward({"x": torch.ones(1)}, backend="sim", case=CASE)
    return float(outcome.outputs["y"].unpack())


def test_a_killed_zygote_is_the_students_crash_and_nobody_elses(
    student: Callable[[str], Student],
) -> None:
    """Its worker dies with it; the next student gets a worker from a new one."""
    killer = student("import os, time\ndef f(x): os.kill(os.getppid(), 9); time.sleep(60)\n")

    with pytest.raises(StudentFaultError) as caught:
        _call(killer)

    assert caught.value.verdict is Verdict.CRASHED
    assert _call(student("def f(x): return 2 * x\n")) == 2.0


def test_a_stopped_zygote_hangs_nobody(
    student: Callable[[str], Student], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not answer is replaced; the worker that stopped it is ended with it."""
    monkeypatch.setattr("grader.sandbox.launcher.ZYGOTE_ANSWER_S", 1.0)
    stopper = student(
        "import os, signal\ndef f(x): os.kill(os.getppid(), signal.SIGSTOP); return x\n"
    )

    assert _call(stopper) == 1.0
    stopper.close()

    assert _call(student("def f(x): return 2 * x\n")) == 2.0


def test_processes_that_left_the_group_end_with_the_worker(
    student: Callable[[str], Student],
) -> None:
    """A grandchild in a session of its own is no longer there once its worker is gone."""
    escaping = student(ESCAPE)
    pid = int(_call(escaping))
    os.kill(pid, 0)

    escaping.close()

    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()
