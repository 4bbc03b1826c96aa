"""Student code in the verifier's own process: the same answers, a debugger, and never a mark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

from grader import runner
from grader.grading import Request, UsageError
from grader.sandbox import direct
from grader.sandbox.client import Student, StudentFaultError
from grader.sandbox.line import Backend, Connection
from grader.scorecard import Verdict
from grader.spec import Case

ROOT = Path(__file__).resolve().parent.parent.parent
SOLUTION = ROOT / "reference" / "vector_add" / "solution.py"
CASE = Case({"N": 4}, "float32", why="any", timeout_s=0.01)
COURSE_CASE = "n1000-float32"


def no_worker(backend: Backend) -> Connection:
    """A process is not wanted."""
    raise AssertionError(backend)


def student(folder: Path, body: str) -> Student:
    """A student whose entry point has this body."""
    (folder / "f.py").write_text(f"import sys, time, torch\ndef f(x):\n    {body}\n")
    return Student(direct.connect(no_worker), folder / "f.py", "f")


def test_it_answers_without_a_limit(tmp_path: Path) -> None:
    """Whoever sits at a prompt takes longer than any case's limit, and prints."""
    asked = student(tmp_path, "time.sleep(0.1); print('hello'); return 2 * x")

    outcome = asked.forward({"x": torch.ones(4)}, backend="sim", case=CASE)

    assert outcome.outputs["y"].unpack().tolist() == [2.0] * 4
    assert asked.printed() == ""
    assert asked.isolation is None
    asked.close()


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("2", "SIM_PROGRAM: only program 2,0,0 ran; what others write is missing\n"),
        ("other_kernel:2", ""),
        ("", ""),
    ],
)
def test_what_one_program_alone_leaves_out_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    program: str,
    told: str,
) -> None:
    """A test then fails for that reason; where all programs ran, nothing is said."""
    monkeypatch.setenv("SIM_PROGRAM", program)
    text = SOLUTION.read_text()
    (tmp_path / "vector_add.py").write_text(text)
    asked = Student(direct.connect(no_worker), tmp_path / "vector_add.py", "vector_add")
    x = torch.ones(5000)

    outcome = asked.forward({"x": x, "y": x}, backend="sim", case=CASE)

    assert capsys.readouterr().err == told
    assert bool(outcome.outputs["y"].unpack().isnan().any()) is bool(told)


def test_inputs_are_copies(tmp_path: Path) -> None:
    """What the code does to its inputs is seen, and does not reach ours."""
    x = torch.ones(4)

    outcome = student(tmp_path, "return x.mul_(3)").forward({"x": x}, backend="sim", case=CASE)

    assert outcome.after["x"].unpack().tolist() == [3.0] * 4
    assert x.tolist() == [1.0] * 4


def test_gradients_also_where_nobody_wants_any(tmp_path: Path) -> None:
    """Gradcheck asks from within autograd, where gradients are off."""
    x = torch.ones(4)

    with torch.no_grad():
        outcome = student(tmp_path, "return x * x").vjp(
            {"x": x}, {"y": x}, backend="sim", case=CASE
        )

    assert outcome.grads["x"].unpack().tolist() == [2.0] * 4


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("raise NotImplementedError('TODO')", Verdict.NOT_IMPLEMENTED),
        ("sys.exit(0)", Verdict.CRASHED),
        ("return x.nothing", Verdict.CRASHED),
        ("raise MemoryError", Verdict.OUT_OF_MEMORY),
    ],
)
def test_how_it_ends_is_what_a_worker_says(tmp_path: Path, body: str, want: Verdict) -> None:
    """The same verdicts as in a process of its own."""
    with pytest.raises(StudentFaultError) as caught:
        student(tmp_path, body).forward({"x": torch.ones(4)}, backend="sim", case=CASE)

    assert caught.value.verdict is want


def test_leaving_is_no_end_of_student_code(tmp_path: Path) -> None:
    """Ctrl-C ends the tests, it is no verdict."""
    with pytest.raises(KeyboardInterrupt):
        student(tmp_path, "raise KeyboardInterrupt").forward(
            {"x": torch.ones(4)}, backend="sim", case=CASE
        )


def test_a_grading_refuses_it(tmp_path: Path) -> None:
    """No card comes of it, whoever asks."""
    with pytest.raises(UsageError, match="for debugging, never for marks"):
        runner.grade(Request(Path("assignment"), direct=True), tmp_path / "out", Console())

    assert not (tmp_path / "out").exists()


def test_the_command_line_has_no_such_option() -> None:
    """Neither has it anything else that leads there."""
    ended = subprocess.run(
        [sys.executable, "-m", "grader", "grade", "--direct"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )

    assert ended.returncode == 2
    assert "No such option" in ended.stderr


def debugged(folder: Path, typed: str, program: str = "") -> subprocess.CompletedProcess[str]:
    """The submission tests on a solution that stops before its store, with these lines typed."""
    text = SOLUTION.read_text().replace("    tl.store", "    breakpoint()\n    tl.store")
    (folder / "vector_add.py").write_text(text)
    where = ["--submission", str(folder), "--problem", "vector_add", "--case", COURSE_CASE]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "tests/submission", *where, "--direct"],
        cwd=ROOT,
        env={**os.environ, "SIM_PROGRAM": program},
        input=typed,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_breakpoint_stops_in_the_students_own_file(tmp_path: Path) -> None:
    """In its own folder, where an editor set it; then both groups pass as ever."""
    ended = debugged(tmp_path, "p x.shape\nw\nc\nc\n")

    assert ended.returncode == 0, ended.stdout
    assert f"> {tmp_path}/vector_add.py" in ended.stdout
    assert "(1024,)" in ended.stdout
    assert "grader/simulator" not in ended.stdout
    assert "2 passed" in ended.stdout


@pytest.mark.slow
def test_one_program_of_a_test(tmp_path: Path) -> None:
    """SIM_PROGRAM holds here, too; n = 1000 in one block of 1024 has program 0 alone."""
    shown = debugged(tmp_path, "p mask\nc\nc\n", program="0")
    outside = debugged(tmp_path, "", program="1")
    malformed = debugged(tmp_path, "", program="x")

    assert "tensor(int1[1024], [ True,  True,  True, ..., False, False, False])" in shown.stdout
    assert outside.returncode == 1
    assert "which has no program (1, 0, 0)" in outside.stdout
    assert malformed.returncode == 4
    assert "want one to three program ids" in malformed.stderr


@pytest.mark.slow
def test_quitting_ends_the_tests(tmp_path: Path) -> None:
    """It does not count as the code's failure, and the next test does not open it again."""
    ended = debugged(tmp_path, "q\n")

    assert ended.stdout.count("(Pdb)") == 1
    assert "Quitting debugger" in ended.stdout
    assert "failed" not in ended.stdout
