"""Progress of a running grading."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from grader.report.progress import GradingProgress
from grader.scorecard import Verdict


def seconds() -> float:
    """A clock that stands still."""
    return 0.0


def test_without_a_terminal_each_finished_problem_is_one_line() -> None:
    """No bar, no control characters, passed of all."""
    out = io.StringIO()

    with GradingProgress({"gelu": 2, "softmax": 1}, Console(file=out), seconds) as progress:
        progress.test_done("gelu", "forward", Verdict.PASSED)
        progress.test_done("softmax", "forward", Verdict.PASSED)
        progress.test_done("gelu", "memory", Verdict.RACE)

    assert out.getvalue() == ("softmax: 1 of 1 tests passed, 0 s\ngelu: 1 of 2 tests passed, 0 s\n")


def test_an_interrupted_problem_is_named() -> None:
    """What stopped half-way says where; the interrupt goes on."""
    out = io.StringIO()

    def interrupted() -> None:
        with GradingProgress({"gelu": 3}, Console(file=out), seconds) as progress:
            progress.test_done("gelu", "forward", Verdict.PASSED)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert out.getvalue() == "gelu: stopped after 1 of 3 tests\n"


def test_a_terminal_sees_problem_group_and_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The live line names what is running."""
    monkeypatch.setenv("TERM", "xterm")
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)

    with GradingProgress({"gelu": 3}, console) as progress:
        progress.test_done("gelu", "memory", Verdict.PASSED)
        progress._live.refresh()

    assert "gelu memory" in out.getvalue()
    assert "1/3" in out.getvalue()


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """TERM=dumb cannot move its cursor, so there is no live line."""
    monkeypatch.setenv("TERM", "dumb")
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)

    with GradingProgress({"gelu": 1}, console, seconds) as progress:
        progress.phase("gelu: measuring")
        progress.test_done("gelu", "forward", Verdict.PASSED)

    assert out.getvalue() == "gelu: measuring\ngelu: 1 of 1 tests passed, 0 s\n"
