"""A scorecard as text."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from grader import scorecard
from grader.report.terminal import MAX_NAMED, SHOWN_OF_A_KIND, print_card, summary
from grader.scorecard import (
    Control,
    PerformanceRow,
    ProblemResult,
    Scorecard,
    Status,
    ThresholdResult,
    Verdict,
)
from grader.spec import Group

CAUSE = "got 0.0, want 0.25 at [1, 7], allowed 1e-05\nrun: make test ARGS='-k softmax'"


def a_test(
    group: Group, i: int, verdict: Verdict = Verdict.PASSED, *, cause: str = CAUSE
) -> scorecard.TestResult:
    """One test worth 1 point."""
    passed = verdict is Verdict.PASSED
    counts = verdict not in {Verdict.NOT_CHECKABLE, Verdict.NOT_MEASURED}
    return scorecard.TestResult(
        id=f"{group}[softmax-N{i}-float32]",
        group=group,
        case=f"N{i}-float32",
        verdict=verdict,
        points=1.0 if passed else 0.0,
        max_points=1.0 if counts else 0.0,
        cause="" if passed else cause,
    )


def a_problem(
    tests: Sequence[scorecard.TestResult],
    *,
    status: Status = Status.GRADED,
    reason: str = "",
    speed_points: float = 0.0,
    worth: float = 10.0,
) -> ProblemResult:
    """Softmax, with the score that its tests sum to."""
    is_scored = status in {Status.GRADED, Status.PARTIAL}
    return ProblemResult(
        name="softmax",
        status=status,
        score=sum(t.points for t in tests) + speed_points if is_scored else None,
        max_score_measured=sum(t.max_points for t in tests) + speed_points if is_scored else None,
        max_score=worth,
        reason=reason,
        tests=tuple(tests),
    )


def a_card(
    problem: ProblemResult,
    *,
    performance: Sequence[PerformanceRow] = (),
    controls: Sequence[Control] = (),
    reason: str = "",
    notes: tuple[str, ...] = (),
) -> Scorecard:
    """A card of one problem, graded without a GPU."""
    return Scorecard(
        status=problem.status,
        reason=reason,
        score=problem.score,
        max_score_measured=problem.max_score_measured,
        max_score=problem.max_score,
        submission=scorecard.Submission(
            path="assignment", sha256="0" * 64, files=("softmax.py",), ignored=("notes.txt",)
        ),
        assignment=scorecard.Assignment(problems=("softmax",), sha256="1" * 64, part="public"),
        grader=scorecard.Grader(version="0.1.0", settings={}),
        environment=scorecard.Environment(
            python="3.11.7",
            torch="2.13.0",
            triton=None,
            numpy="2.4.6",
            platform="Linux x86_64",
            device="cpu",
            backend="simulator",
        ),
        isolation=scorecard.Isolation(
            level="practice", in_force=("own process",), missing=("Landlock",)
        ),
        problems=(problem,),
        performance=tuple(performance),
        controls=tuple(controls),
        integrity=notes,
        expected_tests=len(problem.tests),
        reported_tests=len(problem.tests),
        attempts=(scorecard.Attempt(problem="softmax", backend="sim", ended="signal 11"),),
    )


def text_of(card: Scorecard, *, width: int = 100, terminal: bool = False) -> str:
    """What is printed, without trailing blanks."""
    out = io.StringIO()
    print_card(card, Console(file=out, width=width, force_terminal=terminal))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def a_row(ratio: float | None = 2.0) -> PerformanceRow:
    """Eager beside the submission, paid half of 2 points; or not measured."""
    measured = ratio is not None
    return PerformanceRow(
        problem="softmax",
        case="M8192-N4096-float32",
        phase="forward",
        impl="eager",
        status="measured" if measured else "not_measured",
        reason="" if measured else "there is no GPU here",
        n=40 if measured else 0,
        median_ms=0.25 if measured else None,
        ratio=ratio,
        ci95=(1.99, 2.01) if measured else None,
        thresholds=(
            ThresholdResult(
                baseline="eager",
                phase="forward",
                gpu="NVIDIA H200",
                anchors=((1.0, 0.0), (3.0, 1.0)),
                ratio=ratio,
                share=0.5 if measured else None,
                points=1.0 if measured else 0.0,
                max_points=2.0,
                reason="" if measured else "there is no GPU here",
            ),
        ),
    )


def test_the_summary_says_what_was_measured_and_what_there_is() -> None:
    """Earned of measured here, and the worth of the whole."""
    card = a_card(a_problem([a_test("forward", 1), a_test("memory", 1, Verdict.RACE)]))

    assert summary(card) == "1.00 of 2.00 measured here, 10 in all"
    assert text_of(card).splitlines()[-1] == summary(card)


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param(Status.HELD, "No score yet, under review: softmax", id="held"),
        pytest.param(Status.GRADER_ERROR, "No score, under review: softmax", id="grader-error"),
        pytest.param(
            Status.PARTIAL,
            "1.00 of 1.00 measured here, 10 in all (partial: under review: softmax)",
            id="partial",
        ),
    ],
)
def test_the_summary_of_a_card_that_is_not_graded_says_why(status: Status, want: str) -> None:
    """No such card shows a bare number."""
    problem = a_problem([a_test("forward", 1)], status=status, reason="x")

    assert summary(a_card(problem, reason="under review: softmax")) == want


def test_a_table_counts_passed_of_checked() -> None:
    """Groups of the problem, a star where a test could not be checked, a dash without tests."""
    tests = [
        a_test("forward", 1),
        a_test("forward", 2, Verdict.WRONG_VALUE),
        a_test("memory", 1),
        a_test("memory", 2, Verdict.NOT_CHECKABLE),
    ]
    row = next(line for line in text_of(a_card(a_problem(tests))).splitlines() if "1/2" in line)

    assert row.split() == ["softmax", "1/2", "-", "-", "1/1*", "-", "2.00/3.00", "10"]


@pytest.mark.parametrize("width", [20, 40, 50])
def test_a_narrow_terminal_gets_sentences(width: int) -> None:
    """Nothing is cut off where a table does not fit."""
    tests = [a_test("forward", 1), a_test("forward", 2, Verdict.WRONG_VALUE)]
    text = text_of(a_card(a_problem(tests)), width=width)

    assert "softmax: forward 1/2, points 1.00/2.00" in text.replace("\n", " ")
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", range(20, 130, 3))
def test_nothing_is_cut_off_at_any_width(width: int) -> None:
    """Every number is whole, in a table or a sentence."""
    problem = a_problem([a_test("forward", 1)], speed_points=1.0)
    text = text_of(a_card(problem, performance=[a_row()]), width=width)
    squeezed = " ".join(text.split())

    assert "\u2026" not in text
    assert all(n in squeezed for n in ("0.2500", "2.000x", "1.990..2.010", "1.00/2", "2.00/2.00"))


def test_a_failure_shows_its_whole_cause() -> None:
    """The test, its verdict, and every line of the cause."""
    text = text_of(a_card(a_problem([a_test("forward", 7, Verdict.WRONG_VALUE)])))

    assert "forward[softmax-N7-float32]  wrong_value" in text
    assert "  got 0.0, want 0.25 at [1, 7], allowed 1e-05\n" in text
    assert "  run: make test ARGS='-k softmax'" in text


def test_a_passed_test_is_not_among_the_failures() -> None:
    """All passed: no cause is shown."""
    assert "forward[softmax" not in text_of(a_card(a_problem([a_test("forward", 7)])))


def test_the_reason_of_a_problem_is_shown_once() -> None:
    """Either as the cause of its test, or, where it is none, by itself."""
    held = a_test("forward", 7, Verdict.INTEGRITY_HOLD, cause="faster than a copy")
    of_a_test = a_problem([held], status=Status.HELD, reason=f"{held.id}: faster than a copy")
    of_its_own = a_problem([a_test("forward", 7)], status=Status.HELD, reason="clocks disagree")

    assert text_of(a_card(of_a_test, reason="under review")).count("faster than a copy") == 1
    assert text_of(a_card(of_its_own, reason="under review")).count("clocks disagree") == 1


def test_failures_that_hold_for_the_whole_problem_are_shown_once() -> None:
    """Not implemented nine times is one cause; the others are named."""
    tests = [a_test("forward", i, Verdict.NOT_IMPLEMENTED, cause="TODO") for i in range(2)]
    tests += [a_test("memory", i, Verdict.NOT_IMPLEMENTED, cause="TODO") for i in range(2)]
    text = text_of(a_card(a_problem(tests)))

    assert text.count("TODO") == 1
    assert (
        "Likewise not_implemented: forward N1-float32, memory N0-float32, memory N1-float32\n"
        in text
    )


def test_many_failures_of_a_kind_are_named() -> None:
    """Some in full, some by name, the rest as a number; other kinds are not crowded out."""
    n = SHOWN_OF_A_KIND + MAX_NAMED + 3
    tests = [a_test("forward", i, Verdict.WRONG_VALUE) for i in range(n)]
    problem = a_problem([*tests, a_test("memory", 0, Verdict.RACE, cause="two programs")], worth=20)
    text = text_of(a_card(problem), width=200)

    assert text.count("got 0.0") == SHOWN_OF_A_KIND
    assert "Likewise wrong_value: N2-float32, N3-float32," in text
    assert "N9-float32 and 3 more (the scorecard has what each says)\n" in text
    assert "memory[softmax-N0-float32]  race\n  two programs\n" in text


def test_a_command_is_not_wrapped() -> None:
    """It can be copied from a narrow terminal; prose is wrapped."""
    command = "rerun it: make grade ARGS='--problem softmax --case M63-N781-float32'"
    prose = "this case checks that what pads the row does not count"
    failed = a_test("forward", 1, Verdict.WRONG_VALUE, cause=f"{prose}\n  {command}")
    lines = text_of(a_card(a_problem([failed])), width=40).splitlines()

    assert f"    {command}" in lines
    assert max(len(line) for line in lines if command not in line) <= 40


def test_where_is_said_once() -> None:
    """A cause that begins with its test's id does not repeat the line above it."""
    failed = a_test("forward", 1, Verdict.WRONG_VALUE, cause="forward[softmax-N1-float32]: got 1")

    assert "wrong_value\n  got 1\n" in text_of(a_card(a_problem([failed])))


def test_no_control_character_of_a_student_reaches_the_terminal() -> None:
    """An escape sequence in a cause is shown, not obeyed."""
    evil = "\x1b]0;owned\x07\x1b[2Jgot [bold]this[/bold]\r100/100"
    text = text_of(a_card(a_problem([a_test("forward", 1, Verdict.CRASHED, cause=evil)])))

    assert "\x1b" not in text
    assert "\x07" not in text
    assert r"\x1b]0;owned\x07\x1b[2Jgot [bold]this[/bold]\r100/100" in text


def test_colour_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe and NO_COLOR get none, a terminal does."""
    card = a_card(a_problem([a_test("forward", 1)]))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)

    assert "\x1b[" not in text_of(card, terminal=False)
    assert "\x1b[1;32m" in text_of(card, terminal=True) or "\x1b[32m" in text_of(
        card, terminal=True
    )
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in text_of(card, terminal=True)


def test_a_card_prints_in_an_ascii_locale() -> None:
    """Lines and stars survive a stream that can only write ASCII."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    problem = a_problem([a_test("forward", 1), a_test("memory", 1, Verdict.NOT_CHECKABLE)])

    print_card(a_card(problem, performance=[a_row(None)]), Console(file=stream, width=100))
    stream.flush()

    assert b"1.00 of 1.00 measured here" in raw.getvalue()


def test_measured_performance_is_a_table() -> None:
    """Median, ratio, interval, calls and points."""
    problem = a_problem([a_test("forward", 1)], speed_points=1.0)
    text = text_of(a_card(problem, performance=[a_row()]), width=120)
    row = next(line for line in text.splitlines() if "eager" in line)

    assert row.split() == [
        "softmax",
        "M8192-N4096-float32",
        "forward",
        "eager",
        "0.2500",
        "2.000x",
        "1.990..2.010",
        "40",
        "-",
        "1.00/2",
    ]
    assert text.splitlines()[1].split() == [
        "softmax",
        "1/1",
        *"---",
        "1.00/2.00",
        "2.00/2.00",
        "10",
    ]


def test_unmeasured_performance_says_why_once() -> None:
    """One sentence, not a table of dashes."""
    problem = a_problem([a_test("forward", 1)])
    text = text_of(a_card(problem, performance=[a_row(None), a_row(None)]))

    assert "Performance was not measured: there is no GPU here\n" in text
    assert "median" not in text


@pytest.mark.parametrize(
    ("passed", "want"),
    [
        pytest.param(True, "All 1 controls of the measurement passed.", id="passed"),
        pytest.param(
            False,
            "Control baseline-against-itself (float32) failed: got 1.02, want 1, allowed 0.005",
            id="failed",
        ),
    ],
)
def test_controls_are_reported(passed: bool, want: str) -> None:
    """A failed control is named with its numbers."""
    control = Control(
        name="baseline-against-itself",
        dtype="float32",
        want=1.0,
        got=1.001 if passed else 1.02,
        allowed=0.005,
        passed=passed,
    )
    problem = a_problem([a_test("forward", 1)], speed_points=1.0)

    assert want in text_of(a_card(problem, performance=[a_row()], controls=[control]))


def test_circumstances_are_told() -> None:
    """Isolation with what is missing, files not taken, workers that ended, notes for staff."""
    text = text_of(a_card(a_problem([a_test("forward", 1)]), notes=("imports ctypes",)))
    squeezed = " ".join(text.split())

    assert "isolation practice: own process missing: Landlock" in squeezed
    assert "not taken notes.txt" in squeezed
    assert "worker ended softmax (sim): signal 11" in squeezed
    assert "note imports ctypes" in squeezed
    assert "kernels ran in simulator" in squeezed
