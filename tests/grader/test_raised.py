"""grader.sandbox.raised: what an exception of student code becomes on its way to the verifier."""

from __future__ import annotations

import bdb
import json
from pathlib import Path

import pytest

from grader.sandbox.protocol import HEADER_LIMIT_BYTES
from grader.sandbox.raised import describe
from grader.sandbox.replies import parse
from grader.simulator import CompilationError, UnsupportedError

FOLDER = Path("/submission")
# as Triton's message: the kernel's source up to the line it stops at, then what is wrong there
QUOTED = (
    "at 4:8:\ndef kernel(x_ptr):\n    # TODO: your code here, instead of the next line\n{line}\n"
)


class TritonError(Exception):
    """Stands for ``triton.compiler.errors.CompilationError``."""


TritonError.__name__ = "CompilationError"
TritonError.__module__ = "triton.compiler.errors"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(
            TritonError(QUOTED.format(line='    tl.static_assert(False, "TODO: write it")')),
            "not_implemented",
            id="triton-stub",
        ),
        pytest.param(
            TritonError(QUOTED.format(line="    x = tl.laod(x_ptr)")),
            "compile_error",
            id="triton-mistake-under-the-comment",
        ),
        pytest.param(
            CompilationError("static_assert failed: TODO: write it"), "not_implemented", id="stub"
        ),
        pytest.param(
            CompilationError("static_assert failed: M is no TODO"), "compile_error", id="assertion"
        ),
    ],
)
def test_only_the_stub_is_not_implemented(error: Exception, kind: str) -> None:
    """A kernel is not implemented while its stub's assertion stands, whatever comments say."""
    assert describe(error, "call", FOLDER)["kind"] == kind


def test_a_breakpoint_that_nobody_answers() -> None:
    """Quitting pdb says nothing of what it is to a student; another empty message stays empty."""
    told = describe(bdb.BdbQuit(), "call", FOLDER)

    assert told["type"] == "BdbQuit"
    assert told["message"].startswith("it stopped at a breakpoint(), and nobody is here to answer")
    assert describe(ValueError(), "call", FOLDER)["message"] == ""


def test_only_the_simulator_says_that_it_cannot() -> None:
    """A submission that raises the simulator's own refusal crashed; the simulator's excuses it."""

    def kind(file: Path) -> str:
        try:
            exec(compile("raise error", file, "exec"), {"error": UnsupportedError("no")})
        except UnsupportedError as error:
            return describe(error, "call", FOLDER)["kind"]
        raise AssertionError

    assert kind(FOLDER / "gelu.py") == "exception"
    assert kind(Path("/grader/simulator/language.py")) == "unsupported"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x" * 30_000, id="ascii"),
        pytest.param("错误" * 9_000, id="chinese"),
        pytest.param("\0" * 30_000, id="control-characters"),
        pytest.param("\ud800", id="half-a-surrogate-pair"),
    ],
)
def test_any_message_is_a_reply(text: str) -> None:
    """Whatever a student's exception says fits one header and is read as raised."""
    raised = describe(ValueError(text), "call", FOLDER)
    header = {"seq": 1, "op": "raised", **raised, "sticky": False}

    assert len(json.dumps(header)) < HEADER_LIMIT_BYTES
    assert parse(header, "forward").op == "raised"


def test_paths_are_the_submissions_own() -> None:
    """The grader's copy of a file is called as the student calls it, in messages too."""
    raised = describe(CompilationError(f"{FOLDER}/gelu.py:6: no"), "call", FOLDER)

    assert raised["message"] == "gelu.py:6: no"
    assert str(FOLDER) not in raised["traceback"]


def test_short_message_stays_whole() -> None:
    """What fits is not cut."""
    assert describe(ValueError("错误"), "call", FOLDER)["message"] == "错误"


def test_frames_of_the_grader_are_not_the_students() -> None:
    """Also where the script lies in the folder that the grader lies in."""
    root = Path(describe.__code__.co_filename).parents[2]
    try:
        parse({"op": "call"}, "load")
    except ValueError as error:
        told = describe(error, "call", root)["traceback"]

    assert "tests/grader/test_raised.py" in told
    assert "replies.py" not in told
