"""python -m grader trace: what one case moves and what is found, as tables and as data."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from grader.discover import REFERENCE
from grader.grading import UsageError
from grader.report.trace import render
from grader.sandbox import compiling
from grader.seen import FindingSeen, LaunchSeen, LoopSeen, Trace, TrafficSeen
from grader.simulator import Cache
from grader.spec import Phase
from grader.trace import trace
from tests.grader.course import SOLUTION, Course

WITHOUT_MASK = SOLUTION.replace("tl.load(x_ptr + offsets, mask=mask)", "tl.load(x_ptr + offsets)")


@pytest.fixture(scope="module")
def course(new_course: Callable[..., Course]) -> Course:
    """One problem, three submissions."""
    made = new_course("double")
    made.submit(
        {
            "double.py": "def double(x):\n    raise NotImplementedError('TODO: double')\n",
            "unmasked.py": WITHOUT_MASK.format(name="double"),
            "crash.py": "def double(x):\n    return x.missing\n",
        }
    )
    return made


def test_counts_of_the_largest_case(course: Course) -> None:
    """8 float32 are read and written, 32 bytes each: one sector in each of two programs.

    Every program of 4 elements touches half a sector, so the sectors' useful share is one half; the
    cache catches the other half.
    """
    traced = course.run("trace", "double", "--submission", "reference", "--json")

    assert traced.code == 0, traced.said
    seen = Trace.model_validate(json.loads(traced.said))
    assert (seen.case, seen.phase, seen.n_launches) == ("N8-float32", "forward", 1)
    (launch,) = seen.launches
    assert (launch.kernel, launch.grid, launch.n_programs) == ("_double_kernel", (2, 1, 1), 2)
    assert launch.arguments["x_ptr"] == TrafficSeen(
        read=8,
        read_bytes=32,
        read_sectors=2,
        read_share=0.5,
        dram_read_bytes=32,
        dram_written_bytes=0,
    )
    assert launch.arguments["y_ptr"].dram_written_bytes == 32
    assert (seen.read, seen.allowed_read, seen.min_bytes) == (8, 8, 64)
    assert seen.findings == ()


def test_a_finding_is_told_with_its_line_and_what_to_do(course: Course) -> None:
    """And ends with exit code 1."""
    traced = course.run(
        "trace", "double", "--submission", "assignment/unmasked.py", "--case", "N5-float32"
    )

    assert traced.code == 1
    assert "out of bounds at double.py:11 in _double_kernel, program (1, 0, 0)" in traced.said
    assert "tl.store(y_ptr + offsets, 2 * tl.load(x_ptr + offsets), mask=mask)" in traced.said
    assert "Give tl.load a mask" in traced.said


@pytest.mark.parametrize(
    ("problem", "case", "phase", "words"),
    [
        pytest.param("duoble", None, "forward", "there is no problem 'duoble'", id="problem"),
        pytest.param("double", "N9", "forward", "no test has the case id 'N9'", id="case"),
        pytest.param("double", None, "both", "has no backward", id="phase"),
    ],
)
def test_what_was_asked_for_must_exist(
    course: Course, problem: str, case: str | None, phase: Phase, words: str
) -> None:
    """A problem, a case and a phase."""
    reference = course.root / "reference"

    with pytest.raises(UsageError, match=words):
        trace(reference, problem, case, phase, Cache(), reference)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(
            ["duoble"], 2, "there is no problem 'duoble'", id="usage", marks=pytest.mark.slow
        ),
        pytest.param(["double"], 1, "double: not implemented yet: TODO: double", id="stub"),
        pytest.param(
            ["double", "--submission", "assignment/crash.py"],
            1,
            "double: AttributeError: 'Tensor' object has no attribute 'missing'",
            id="crash",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_cannot_be_traced_is_said(
    course: Course, arguments: list[str], code: int, words: str
) -> None:
    """Usage errors are 2, failing code is 1; neither shows a traceback of the grader's."""
    traced = course.run("trace", *arguments)

    assert traced.code == code
    assert words in traced.said
    assert "grader/" not in traced.said


def a_trace(*launches: LaunchSeen, findings: tuple[FindingSeen, ...] = ()) -> Trace:
    """A trace of 1,000 elements in and out."""
    return Trace(
        problem="double",
        case="N1000-float32",
        phase="forward",
        submission="assignment",
        launches=launches,
        n_launches=max(1, len(launches)),
        findings=findings,
        read=1000,
        written=1000,
        allowed_read=2000,
        allowed_written=1000,
        min_bytes=8000,
        cache_bytes=131072,
        in_flight=8,
    )


LAUNCH = LaunchSeen(
    kernel="a_kernel",
    grid=(3, 5, 1),
    n_programs=15,
    n_passes=2,
    arguments={
        "x_ptr": TrafficSeen(
            read=1000,
            read_bytes=4000,
            read_sectors=1000,
            read_share=0.125,
            dram_read_bytes=8000,
            dram_written_bytes=0,
        ),
        "count_ptr": TrafficSeen(atomics=15),
        "idle_ptr": TrafficSeen(),
    },
    loops=(
        LoopSeen(where="double.py:7", source_line="for k in range(n):", turns=20, fewest=0, most=2),
    ),
)


def shown(trace: Trace, width: int) -> list[str]:
    """The rendered lines, without trailing blanks."""
    console = Console(file=io.StringIO(), width=width, no_color=True)
    console.print(render(trace, width=width), crop=False)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_launch_fits_80_columns() -> None:
    """Kernel, grid, loops, then one row for each argument and direction."""
    lines = shown(a_trace(LAUNCH), 80)

    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "a_kernel[3, 5]  15 programs, 2 simulator passes" in text
    assert "loop at double.py:7: 0 to 2 turns a program, 20 in all" in text
    cells = [line.split() for line in lines]
    assert ["x_ptr", "read", "1,000", "4,000", "1,000", "12%", "8,000"] in cells
    assert ["count_ptr", "atomic", "15", "-", "-", "-", "-"] in cells
    assert ["idle_ptr", "unused", "0", "-", "-", "-", "-"] in cells
    assert "elements read 1,000 of 2,000 allowed, written 1,000 of 1,000 allowed" in text
    assert "DRAM 8,000 (1.00x)" in text


def test_a_narrow_terminal_gets_sentences() -> None:
    """Nothing is cut off."""
    text = " ".join(" ".join(shown(a_trace(LAUNCH), 40)).split())

    assert "x_ptr read: elements 1,000, bytes 4,000, sectors 1,000, useful 12%, DRAM 8,000" in text


@pytest.mark.parametrize(
    ("where", "head"),
    [
        ("double.py:7 in a_kernel", "never written by double.py:7 in a_kernel"),
        (":0 in ", "never written"),
    ],
)
def test_what_nobody_wrote_has_no_line(where: str, head: str) -> None:
    """Only the kernel that came near is named."""
    found = FindingSeen(
        kind="never_written",
        where=where,
        source_line="",
        program=(0, 0, 0),
        text="5 of 16 elements of y were never written, the first at index (11,)",
        count=5,
    )

    assert head in shown(a_trace(findings=(found,)), 80)


def test_control_characters_of_a_submission_are_escaped() -> None:
    """A kernel's source line cannot move the cursor."""
    found = FindingSeen(
        kind="race",
        where="double.py:7 in a_kernel",
        source_line="x = 1  # \x1b[2J",
        program=(0, 0, 0),
        text="two programs (3 elements)",
        advice="Let one write.",
        count=3,
    )

    text = "\n".join(shown(a_trace(findings=(found,)), 80))

    assert "\x1b" not in text
    assert "race at double.py:7 in a_kernel, program (0, 0, 0)" in text
    assert "two programs (3 elements)" in text
    assert "Let one write." in text


@pytest.mark.triton
def test_what_the_compiler_makes_of_it(course: Course) -> None:
    """For each GPU asked for, by the kernel's own word; a block of 4 threads' work needs no spill."""
    traced = course.run("trace", "double", "--submission", "reference", "--arch", "sm_80", "--json")
    both = course.run("trace", "double", "--submission", "reference")

    assert traced.code == 0, traced.said
    (kernel,) = Trace.model_validate(json.loads(traced.said)).compiled
    assert (kernel.kernel, kernel.target, kernel.spill_bytes) == ("_double_kernel", "sm_80", 0)
    assert "sm_80" in both.said
    assert "sm_90" in both.said


def test_without_a_compiler_the_trace_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It shows all the rest."""
    monkeypatch.setattr(compiling, "is_available", lambda: False)
    (tmp_path / "vector_add.py").write_text(
        (REFERENCE / "vector_add" / "solution.py").read_text(encoding="utf-8")
    )

    seen = trace(tmp_path, "vector_add", None, "forward", Cache(), REFERENCE, [80])

    assert seen.launches
    assert not seen.compiled
    (note,) = seen.compiler_notes
    assert note.startswith("kernels were not compiled: Triton is not installed here. `pip install")


def test_an_arch_that_is_none_is_a_usage_error(course: Course) -> None:
    """With those there are."""
    wrong = course.run("trace", "double", "--arch", "sm_77")

    assert wrong.code == 2
    assert "got 'sm_77', want one of 'sm_80'" in wrong.said
