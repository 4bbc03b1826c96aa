"""grader.grading: a fault of ours says where it lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.discover import load_problem
from grader.grading import grader_error
from grader.scorecard import Check, Verdict
from tests.grader.course import PROBLEM

ORACLE = "lambda x: 2 * x.double()"


def blamed(reference: Path, text: str) -> Check:
    """What is said when the oracle of a problem with this text is asked about no tensor."""
    folder = reference / "double"
    folder.mkdir()
    (folder / "problem.py").write_text(text)
    problem = load_problem("double", reference)
    with pytest.raises((KeyError, AttributeError)) as raised:
        problem.oracle(x=None)
    return grader_error("forward[double-N5-float32]", raised.value)


def line_of(words: str, text: str) -> int:
    """The number of the line that holds these words."""
    return text[: text.index(words)].count("\n") + 1


def test_the_line_of_the_problem_is_named(tmp_path: Path) -> None:
    """The one that raised, also when the oracle calls a function of its own file."""
    table = "def table(x):\n    raise KeyError('boom')\n\n\ndef make_inputs"
    text = PROBLEM.format(name="double").replace(ORACLE, "lambda x: table(x)")
    text = text.replace("def make_inputs", table)

    check = blamed(tmp_path, text)

    assert check.verdict is Verdict.GRADER_ERROR
    assert check.cause.splitlines() == [
        "forward[double-N5-float32]: KeyError: 'boom'",
        f"  raised at double/problem.py:{line_of('raise KeyError', text)} in table",
        "  This is a fault of the grader, not of your code; it costs no points.",
    ]


def test_what_a_library_raises_is_told_by_the_line_that_called_it(tmp_path: Path) -> None:
    """torch.stft is Python that asks its argument for x.dim(): the line of torch helps nobody."""
    text = PROBLEM.format(name="double").replace(ORACLE, "lambda x: torch.stft(x, 4)")

    check = blamed(tmp_path, text)

    place = f"double/problem.py:{line_of('torch.stft', text)} in <lambda>"
    assert check.cause.splitlines()[1] == f"  raised at {place}"


def test_an_error_elsewhere_names_no_line_of_a_problem() -> None:
    """Whoever reads must not look for it there."""
    with pytest.raises(ZeroDivisionError) as raised:
        divmod(1, 0)

    assert "raised at" not in grader_error("t", raised.value).cause
