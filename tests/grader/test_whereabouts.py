"""grader.sandbox.whereabouts: an endless loop ends by its time limit, with the line it was on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from grader.sandbox import whereabouts
from grader.sandbox.client import Student, StudentFaultError
from grader.sandbox.launcher import Launcher
from grader.sandbox.line import workers
from grader.scorecard import Verdict
from grader.spec import Case

# {BODY} of the kernel, {HOST} before its launch; "endless" marks where it ends up
SUBMISSION = """\
import time
import torch
import triton
import triton.language as tl


@triton.jit
def helper(x):
    while tl.sum(x, axis=0) > -1:
        x = x + 0  # endless in helper
    return x


@triton.jit
def kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    {BODY}
    tl.store(out_ptr + offsets, x, mask=mask)


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        {HOST}
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK_SIZE=64)
        return out

    @staticmethod
    def backward(ctx, dy):
        while {BACKWARD}: pass  # endless in backward
        return dy


def entry(x):
    return Copy.apply(x)
"""
LIMIT_S = 1.5
CASE = Case({"N": 100}, "float32", why="any", timeout_s=LIMIT_S)


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    """One launcher for all."""
    launcher = Launcher()
    yield launcher
    launcher.close()


def ended(
    launcher: Launcher,
    folder: Path,
    body: str = "pass",
    host: str = "pass",
    backward: str = "False",
) -> tuple[StudentFaultError, str]:
    """How a call with its gradient ends, and the line marked as endless."""
    text = SUBMISSION.replace("{BODY}", body).replace("{HOST}", host)
    text = text.replace("{BACKWARD}", backward)
    (folder / "entry.py").write_text(text)
    student = Student(workers(launcher), folder / "entry.py", "entry")
    x = torch.ones(CASE.dims["N"])
    try:
        with pytest.raises(StudentFaultError) as caught:
            student.vjp({"x": x}, {"y": x}, backend="sim", case=CASE)
    finally:
        student.close()
    return caught.value, text


def line_of(text: str, mark: str) -> int:
    """The line with this mark."""
    (line,) = [i for i, each in enumerate(text.splitlines(), 1) if mark in each]
    return line


@pytest.mark.parametrize(
    ("body", "mark", "function"),
    [
        pytest.param(
            "i = tl.program_id(0)\n    while i >= 0:\n        x = x + 0  # endless while",
            "endless while",
            "kernel",
            id="while",
        ),
        pytest.param(
            "for i in range(1 << 40):\n        x = x + 0  # endless for",
            "endless for",
            "kernel",
            id="for",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "for i in tl.range(0, 1 << 40):\n        tl.store(out_ptr + offsets, x, mask=mask)  # endless",
            "mask=mask)  # endless",
            "kernel",
            id="stores",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "while tl.load(x_ptr) == 1: pass  # endless spin",
            "endless spin",
            "kernel",
            id="spin",
            marks=pytest.mark.slow,
        ),
        pytest.param("x = helper(x)", "endless in helper", "helper", id="in-a-helper"),
    ],
)
def test_an_endless_kernel_ends_with_its_line(
    launcher: Launcher, tmp_path: Path, body: str, mark: str, function: str
) -> None:
    """No atomics, so no deadlock that could be seen: the time limit ends it."""
    fault, text = ended(launcher, tmp_path, body=body)

    assert (fault.verdict, fault.what) == (Verdict.TIMEOUT, f"running took over {LIMIT_S:g} s")
    where, source = fault.details
    # a loop's own line, or its body
    lines = {line_of(text, mark) - n for n in (0, 1)}
    assert where in {f"it was at entry.py:{line} in {function}" for line in lines}
    assert source.strip() in {text.splitlines()[line - 1].strip() for line in lines}


@pytest.mark.parametrize(
    "host", ["while True: pass  # endless host", "time.sleep(99)  # endless host"]
)
def test_endless_host_code_ends_with_its_line(
    launcher: Launcher, tmp_path: Path, host: str
) -> None:
    """Also where no bytecode runs meanwhile."""
    fault, text = ended(launcher, tmp_path, host=host)

    line = line_of(text, "endless host")
    assert fault.verdict is Verdict.TIMEOUT
    assert fault.details == (f"it was at entry.py:{line} in forward", f"  {host}")


@pytest.mark.slow
def test_an_endless_backward_ends_with_its_line(launcher: Launcher, tmp_path: Path) -> None:
    """Autograd calls it, not the entry point."""
    fault, text = ended(launcher, tmp_path, backward="True")

    line = line_of(text, "endless in backward")
    assert fault.details[0] == f"it was at entry.py:{line} in backward"


@pytest.mark.slow
@pytest.mark.parametrize(
    "host",
    [
        pytest.param("import signal; signal.signal(10, signal.SIG_IGN); time.sleep(99)", id="deaf"),
        pytest.param(
            "import os; [os.remove(f) or os.mkfifo(f) for f in os.listdir('.') if f == 'stacks'];"
            " time.sleep(99)",
            id="fifo",
        ),
    ],
)
def test_code_that_hides_its_line_still_ends(launcher: Launcher, tmp_path: Path, host: str) -> None:
    """Nothing but the message depends on it."""
    fault, _ = ended(launcher, tmp_path, host=host)

    assert (fault.verdict, fault.details) == (Verdict.TIMEOUT, ())


STACKS = """\
Thread 0x01 (most recent call first):
  File "{FOLDER}/other.py", line 1 in loop

Current thread 0x02 [main] (most recent call first):
  File "/usr/lib/numpy/core.py", line 7 in add
  File "{FOLDER}/own.py", line 2 in kernel
  File "{FOLDER}/own.py", line 1 in <module>
"""


def test_the_innermost_line_of_the_current_thread_counts(tmp_path: Path) -> None:
    """Other threads only where it runs nothing of the submission; never other folders."""
    (tmp_path / "own.py").write_text("first\n    second\n")
    stacks = STACKS.replace("{FOLDER}", str(tmp_path))

    got = whereabouts.place(stacks, tmp_path)
    without_own = whereabouts.place(stacks.replace("own.py", "../x.py"), tmp_path / "nothing")
    of_another = whereabouts.place(
        stacks.replace(f'"{tmp_path}/own.py', '"/elsewhere.py'), tmp_path
    )

    assert got == whereabouts.Place("own.py", 2, "kernel", "second")
    assert without_own is None
    assert of_another == whereabouts.Place("other.py", 1, "loop", "")
    assert whereabouts.place("", tmp_path) is None
