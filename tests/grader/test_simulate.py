"""python -m grader simulate: a script as Python would run it, with the simulator and a debugger."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from grader.simulate import simulate
from grader.simulator import host, single_program

ROOT = Path(__file__).resolve().parent.parent.parent

SCRIPT = """\
import sys
import torch
import triton
import triton.language as tl


@triton.jit
def plus_one(x):
    y = x + 1
    return y


@triton.jit
def add_kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    acc = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for i in range(2):
        if i > 0 and pid > 0:
            acc += x
        acc += plus_one(x)
    tl.store(out_ptr + offsets, acc, mask=mask)


if __name__ == "__main__":
    x = torch.arange(14, device="cuda", dtype=torch.float32)
    out = torch.empty_like(x)
    add_kernel[(4,)](x, out, 14, BLOCK_SIZE=4)
    print(sys.argv[1:], x.is_cuda, out.tolist())
"""
LINE = {text.strip(): i for i, text in enumerate(SCRIPT.splitlines(), 1)}
# x is i; program 0 adds x + 1 twice, the others x as well
WANT = [2.0 * (i + 1) + (i if i >= 4 else 0) for i in range(14)]


@dataclass(frozen=True)
class Ran:
    """How a script ended, and what it and the simulator said."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a script's text in this process, with these lines typed at the debugger."""

    def run(text: str, *arguments: str, program: str = "", typed: str = "") -> Ran:
        path = tmp_path / "script.py"
        path.write_text(text)
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        asked = single_program.parse(program) if program else None
        code = simulate(path, arguments, asked)
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run


def stopping_before(line: str) -> str:
    """The script with a breakpoint() at the end of the line before."""
    return SCRIPT.replace(f"\n{line}", f"; breakpoint()\n{line}")


def test_a_script_runs_as_python_would_run_it(run: Run) -> None:
    """``__main__``, arguments, a GPU that host code believes in, and the right values."""
    ran = run(SCRIPT, "one", "--two")

    assert ran.code == 0
    assert ran.out == f"['one', '--two'] True {WANT}\n"
    assert ran.err == "simulated add_kernel: no findings\n"


def test_notes_are_counted_apart(run: Run) -> None:
    """A sum over lanes that a mask without `other` left out is a note, and no finding."""
    text = SCRIPT.replace(
        "    acc = tl.zeros(",
        "    few = tl.arange(0, BLOCK_SIZE) < 3\n"
        "    total = tl.sum(tl.load(x_ptr + tl.arange(0, BLOCK_SIZE), mask=few), axis=0)\n"
        "    acc = 0 * total + tl.zeros(",
    )

    ran = run(text)

    assert ran.code == 0
    assert ran.err.endswith("simulated add_kernel: no findings, 1 note\n")


def test_compiled_functions_run_as_they_are(run: Run) -> None:
    """A kernel launched from one is simulated, and stepped into, as any other."""
    text = SCRIPT.replace(
        "    add_kernel[(4,)](x", "    torch.compile(add_kernel.__getitem__)((4,))(x"
    )

    ran = run(text)

    assert ran.code == 0
    assert ran.out.endswith(f"True {WANT}\n")


def test_one_program_only(run: Run) -> None:
    """Program 3 writes elements 12 and 13; nobody writes the others."""
    ran = run(SCRIPT, program="3")

    assert ran.code == 0
    got = eval(ran.out.split("True ")[1], {"nan": None})
    assert got == [None] * 12 + WANT[12:]
    assert "in 1 of them only program 3,0,0 ran" in ran.err


@pytest.mark.parametrize("program", ["2", "2,0", "2,0,0", "add_kernel:2"])
def test_the_debugger_shows_what_the_program_has(run: Run, program: str) -> None:
    """Shapes and contents as the kernel sees them, and arithmetic at the prompt."""
    text = stopping_before("    acc = tl.zeros([BLOCK_SIZE], dtype=tl.float32)")

    ran = run(
        text,
        program=program,
        typed="p x\np x.shape\np mask\nx + 1\np pid\np x_ptr + offsets\np tl.sum(x)\nc\n",
    )

    assert ran.code == 0
    shown = [line.removeprefix("(Pdb) ") for line in ran.out.splitlines()]
    assert shown[2:9] == [
        "tensor(fp32[4], [ 8.,  9., 10., 11.])",
        "(4,)",
        "tensor(int1[4], [ True,  True,  True,  True])",
        "tensor(fp32[4], [ 9., 10., 11., 12.])",
        "tensor(int32, 2)",
        "tensor(pointer<fp32>[4], x_ptr + [ 8,  9, 10, 11])",
        "tensor(fp32, 38.)",
    ]


def test_the_last_program_sees_its_mask(run: Run) -> None:
    """A masked lane shows ``other``."""
    text = stopping_before("    acc = tl.zeros([BLOCK_SIZE], dtype=tl.float32)")

    ran = run(text, program="3", typed="p x\np mask\nc\n")

    assert "tensor(fp32[4], [12., 13.,  0.,  0.])" in ran.out
    assert "tensor(int1[4], [ True,  True, False, False])" in ran.out


def test_without_a_program_all_are_shown(run: Run) -> None:
    """One row of values for each program."""
    text = stopping_before("    acc = tl.zeros([BLOCK_SIZE], dtype=tl.float32)")

    ran = run(text, typed="p pid\np x.shape\nc\n")

    assert "tensor(int32 in each of 4 programs, [0, 1, 2, 3])" in ran.out
    assert "(4,)" in ran.out


def test_stepping_follows_the_students_lines(run: Run) -> None:
    """A kernel with ``and`` and a loop is compiled anew, on the same lines.

    ``step`` enters a helper, never the simulator; ``where`` and ``up`` go through the script alone.
    """
    text = stopping_before("    for i in range(2):")

    ran = run(
        text, program="1", typed="n\nn\ns\ns\ns\nw\nu\np i\nu\np x.sum()\nd\nd\nr\nn\nn\nn\nn\nc\n"
    )

    stops = re.findall(r"> \S+script\.py\((\d+)\)", ran.out)
    loop, test, call = (
        LINE["for i in range(2):"],
        LINE["if i > 0 and pid > 0:"],
        LINE["acc += plus_one(x)"],
    )
    add, helper = LINE["acc += x"], LINE["y = x + 1"]
    launch = LINE["add_kernel[(4,)](x, out, 14, BLOCK_SIZE=4)"]
    assert [int(n) for n in stops] == [
        *(loop, test, call),
        # step: the call, its first line, its second
        *(helper - 2, helper, helper + 1),
        # where marks the current frame; up, up, down, down
        *(helper + 1, call, launch, call, helper + 1),
        # return from it, and once more around the loop
        *(helper + 1, loop, test, add, call),
    ]
    assert "tensor(91.)" in ran.out
    assert "grader/simulator" not in ran.out


def test_quitting_the_debugger_ends_the_script(run: Run) -> None:
    """So does the end of what is typed."""
    text = stopping_before("    for i in range(2):")

    for typed in ("q\n", ""):
        ran = run(text, typed=typed)

        assert ran.code == 1
        assert "stopped in the debugger" in ran.err
        assert "Traceback" not in ran.err


def test_print_in_a_kernel(run: Run) -> None:
    """With a prefix, as Triton has it, and without."""
    line = "    acc = tl.zeros([BLOCK_SIZE], dtype=tl.float32)"
    text = SCRIPT.replace(f"\n{line}", f'\n    print("x is", x)\n    print(x)\n{line}')

    ran = run(text, program="3")

    assert ran.out.splitlines()[:2] == [
        "pid (3, 0, 0) x is [12. 13.  0.  0.]",
        "pid (3, 0, 0) [12. 13.  0.  0.]",
    ]


def test_findings_make_it_fail(run: Run) -> None:
    """A kernel that reads beyond its input: told with the line, and exit code 1."""
    ran = run(SCRIPT.replace("x_ptr + offsets, mask=mask, other=0.0", "x_ptr + offsets"))

    assert ran.code == 1
    assert f"script.py:{LINE['x = tl.load(x_ptr + offsets, mask=mask, other=0.0)']}" in ran.err
    assert "out_of_bounds" in ran.err
    assert "simulated add_kernel: 1 finding\n" in ran.err


def test_elements_that_were_never_written(run: Run) -> None:
    """Found where the script looks at them, as in grading; not where one program runs alone."""
    text = SCRIPT.replace("acc, mask=mask", "acc, mask=mask & (offsets != 13)")

    ran = run(text)

    assert ran.code == 1
    assert "never_written: the last kernel to write there was add_kernel" in ran.err
    assert "1 of 14 elements of a tensor of shape (14,) were never written" in ran.err
    assert "at index (13,)" in ran.err
    assert run(text, program="1").code == 0


def test_one_program_alone_does_not_race(run: Run) -> None:
    """It may read what it wrote; all four of them may not."""
    text = SCRIPT.replace(
        "out_ptr + offsets, acc, mask=mask", "out_ptr, tl.load(out_ptr) + tl.sum(acc)"
    )
    text = text.replace("empty_like", "zeros_like")

    assert run(text).code == 1
    assert run(text, program="1").code == 0


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("sys.exit(3)", 3, ""),
        ("sys.exit('no')", 1, "no\n"),
        ("sys.exit()", 0, ""),
        ("raise ValueError('odd')", 1, "ValueError: odd\n"),
        ("add_kernel[(1,)](x)", 1, "missing a required argument"),
    ],
)
def test_exit_codes_are_the_scripts_own(run: Run, end: str, code: int, said: str) -> None:
    """As Python's are; an exception shows the script's lines and none of ours."""
    ran = run(SCRIPT + f"    {end}\n")

    assert ran.code == code
    assert said in ran.err
    assert "grader" not in ran.err


@pytest.mark.parametrize("text", ["def f(:\n", "raise ValueError('odd') from KeyError('x')\n"])
def test_an_error_is_told_once(run: Run, text: str) -> None:
    """A traceback that holds the message already is not followed by it."""
    ran = run(text)

    assert ran.code == 1
    assert ran.err.count("SyntaxError" if "def" in text else "ValueError: odd") == 1


def test_a_kernel_that_is_refused_is_told_once(run: Run) -> None:
    """The calls that led there, the line, what is wrong; and that nothing was found by then only."""
    line = "y = torch.exp(x)"
    ran = run(SCRIPT.replace("y = x + 1", line))

    assert ran.code == 1
    place = f'  File "script.py", line {LINE["y = x + 1"]}, in plus_one\n    {line}\n'
    assert ran.err.count(line) == 1
    assert ran.err.endswith(
        f"{place}CompilationError: torch.exp works on the host, not in a kernel: write tl.exp\n"
        "simulated add_kernel until the script failed (exit code 1): no findings up to there\n"
    )


def test_a_deadlock_is_told_once(run: Run) -> None:
    """Where it was called from, and the finding: nothing of how the simulator noticed."""
    line = "while tl.atomic_xchg(out_ptr + 13, 1.0) != 2.0:"
    ran = run(
        SCRIPT.replace("    pid = tl.program_id(0)", f"    pid = 0\n    {line}\n        pid += 0")
    )

    assert ran.code == 1
    assert ran.err.count("programs wait here for something") == 2
    assert ran.err.count("begin with a lock that is zero") == 1
    assert ran.err.count(line) == 1
    assert "Blocked" not in ran.err
    assert "\ndeadlock: " in ran.err


def test_what_was_found_before_a_script_failed(run: Run) -> None:
    """It counts; and a script that went well says nothing of failing."""
    text = SCRIPT.replace("x_ptr + offsets, mask=mask, other=0.0", "x_ptr + offsets")
    failed = run(f"{text}    raise ValueError('odd')\n")

    assert "until the script failed (exit code 1): 1 finding up to there\n" in failed.err
    assert "failed" not in run(text).err


@pytest.mark.parametrize("setting", ["set_default_device('cuda')", "set_default_device('cuda:0')"])
def test_cuda_as_the_default_device(
    run: Run, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with device="cuda" at each factory; without either, a kernel cannot reach the tensor."""
    # it is kept from one call of a submission to the next
    monkeypatch.setattr(host._Asked, "default", None)
    text = SCRIPT.replace('device="cuda", ', "")
    chosen = run(text.replace("    x = torch", f"    torch.{setting}\n    x = torch"))

    assert chosen.code == 0, chosen.err
    assert chosen.out == f"[] True {WANT}\n"
    # nor does it hold after the script
    assert torch.zeros(1).device.type == "cpu"
    refused = run(
        text.replace("    x = torch", "    torch.set_default_device('cpu')\n    x = torch")
    )
    assert refused.code == 1
    assert "cannot be accessed from Triton (cpu tensor?)" in refused.err


def test_an_interrupted_script_says_where_it_was(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Ctrl-C in an endless loop; how the command then ends is the command line's affair."""
    line = SCRIPT.count("\n") + 1

    with pytest.raises(KeyboardInterrupt):
        run(f"{SCRIPT}    raise KeyboardInterrupt\n")

    assert f'File "script.py", line {line}' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("4", "launched with the grid (4, 1, 1), which has no program (4, 0, 0)"),
        ("0,1", "which has no program (0, 1, 0)"),
        ("add_kernel:0,0,1", "which has no program (0, 0, 1)"),
        ("softmax_kernel:0", "did not launch the kernel softmax_kernel"),
    ],
)
def test_a_program_that_is_not_there(run: Run, program: str, words: str) -> None:
    """Usage errors say what there is."""
    ran = run(SCRIPT, program=program)

    assert ran.code == 2
    assert words in ran.err


def test_other_kernels_run_in_full(run: Run) -> None:
    """With a kernel named, what it reads was written by all programs of the one before."""
    second = SCRIPT.replace("def add_kernel", "def second_kernel").split("@triton.jit")[2]
    second = "@triton.jit" + second.split("if __name__")[0]
    text = SCRIPT.replace("if __name__", f"{second}if __name__").replace(
        "    print(",
        "    y = torch.empty_like(x)\n"
        "    second_kernel[(4,)](out, y, 14, BLOCK_SIZE=4)\n    out = y\n    print(",
    )

    ran = run(text, program="second_kernel:1")

    assert ran.code == 0
    got = eval(ran.out.split("True ")[1], {"nan": None})
    assert got[4:8] == [3 * w + 2 for w in WANT[4:8]]
    assert got[:4] == [None] * 4


@pytest.mark.parametrize("text", ["", "x", "1.5", "-1", "1,2,3,4", "1,", ":1", "a b:1", "k:"])
def test_what_is_no_program(text: str) -> None:
    """One to three ids, maybe after a kernel's name."""
    with pytest.raises(ValueError, match="SIM_PROGRAM"):
        single_program.parse(text)


@pytest.mark.parametrize(("text", "program"), [("", None), (" ", None), ("3", (3, 0, 0))])
def test_an_empty_variable_asks_for_nothing(
    monkeypatch: pytest.MonkeyPatch, text: str, program: tuple[int, int, int] | None
) -> None:
    """`SIM_PROGRAM= python ...` is how a shell unsets it for one command."""
    monkeypatch.setenv("SIM_PROGRAM", text)

    asked = single_program.asked_for()

    assert (asked and asked.place) == program


def command(
    *arguments: str, environment: Mapping[str, str], typed: str = ""
) -> subprocess.CompletedProcess[str]:
    """The command line, as a user has it."""
    return subprocess.run(
        [sys.executable, "-m", "grader", "simulate", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        input=typed,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_command_line(tmp_path: Path) -> None:
    """The variable, the script's own options, and the debugger on stdin."""
    path = tmp_path / "script.py"
    path.write_text(stopping_before("    for i in range(2):"))

    ended = command(str(path), "--help", environment={"SIM_PROGRAM": "1,0"}, typed="p x\nc\n")

    assert ended.returncode == 0, ended.stderr
    assert "tensor(fp32[4], [4., 5., 6., 7.])" in ended.stdout
    assert "['--help'] True" in ended.stdout


def test_the_command_line_says_what_is_wrong(tmp_path: Path) -> None:
    """No file, no program: usage errors without a traceback."""
    missing = command(str(tmp_path / "none.py"), environment={})
    malformed = command(__file__, environment={"SIM_PROGRAM": "x"})

    for ended in (missing, malformed):
        assert ended.returncode == 2
        assert ended.stderr.startswith("error: ")
        assert "Traceback" not in ended.stderr
