"""Turns an exception of student code into the part of a reply that says so. Runs in the worker."""

from __future__ import annotations

import bdb
import json
import re
import traceback
from pathlib import Path
from typing import Literal

import torch

from grader.sandbox.protocol import TRACEBACK_LIMIT_CHARS
from grader.simulator import CompilationError, DeadlockError, UnsupportedError

Kind = Literal[
    "not_implemented",
    "compile_error",
    "unsupported",
    "deadlock",
    "out_of_memory",
    "exit",
    "exception",
]
MESSAGE_LIMIT_CHARS = 4096
_GRADER = Path(__file__).resolve().parent.parent
# what Triton raises for code it cannot compile, or compiles but cannot fit on the device
_TRITON_REFUSALS = frozenset(
    {"CompilationError", "OutOfResources", "PTXASError", "MLIRCompilationError"}
)

# The stub of a kernel body, as the simulator tells it and in the source that Triton quotes. The word
# alone is not enough: the quoted source may hold a comment "TODO" that the student left standing.
_STUB = re.compile(r'static_assert failed: TODO|^\s*tl\.static_assert\(False, "TODO', re.MULTILINE)


def describe(error: BaseException, stage: str, folder: Path) -> dict[str, str]:
    """Kind, type, message and the student's own traceback, each within its limit.

    Args:
        error: What the call or the import raised.
        stage: "import" or "call".
        folder: Where the submission lies; paths inside it are shown relative to it.
    """

    def shown(text: str, limit: int) -> str:
        return _cut(text.replace(f"{folder}/", ""), limit)

    return {
        "stage": stage,
        "kind": _kind(error, folder),
        "type": type(error).__name__[:128],
        "message": shown(_text(error), MESSAGE_LIMIT_CHARS),
        "traceback": shown(_student_traceback(error, folder), TRACEBACK_LIMIT_CHARS),
    }


def _kind(error: BaseException, folder: Path) -> Kind:
    kind: Kind = "exception"
    # raised by the submission itself it would take tests that fail out of the maximum
    if isinstance(error, UnsupportedError) and not _raised_in(error, folder):
        kind = "unsupported"
    elif isinstance(error, DeadlockError):
        kind = "deadlock"
    elif _is_refusal(error):
        kind = "not_implemented" if _STUB.search(_text(error)) else "compile_error"
    elif isinstance(error, NotImplementedError) and _raised_in(error, folder):
        kind = "not_implemented"
    elif _is_out_of_memory(error):
        kind = "out_of_memory"
    elif isinstance(error, (SystemExit, KeyboardInterrupt)):
        kind = "exit"
    return kind


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in _text(error)


def _is_refusal(error: BaseException) -> bool:
    if isinstance(error, CompilationError):
        return True
    return any(
        kind.__module__.startswith("triton.") and kind.__name__ in _TRITON_REFUSALS
        for kind in type(error).__mro__
    )


def _text(error: BaseException) -> str:
    """The message; Triton puts the failing assertion's own words into the cause."""
    text = _message(error)
    return text if error.__cause__ is None else f"{text}\n{_message(error.__cause__)}"


def _message(error: BaseException) -> str:
    if isinstance(error, bdb.BdbQuit):
        return (
            "it stopped at a breakpoint(), and nobody is here to answer: take it out, or debug with "
            "`make test DIRECT=1`"
        )
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001  a student's own exception class may do anything
        return f"(its message raised {type(broken).__name__})"


def _raised_in(error: BaseException, folder: Path) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and Path(frames[-1].filename).is_relative_to(folder)


def _student_traceback(error: BaseException, folder: Path) -> str:
    """The student's own frames; the message too where there is more than one exception to tell."""
    report = traceback.TracebackException.from_exception(error)
    chained: traceback.TracebackException | None = report
    while chained is not None:
        chained.stack = traceback.StackSummary.from_list(_shown(chained.stack, folder))
        chained = _before(chained)
    if isinstance(error, SyntaxError) or _before(report):
        return "".join(report.format())
    frames = "".join(report.stack.format())
    return f"Traceback (most recent call last):\n{frames}" if frames else ""


def _before(report: traceback.TracebackException) -> traceback.TracebackException | None:
    """The exception that is told before this one, if any."""
    context = None if report.__suppress_context__ else report.__context__
    return report.__cause__ or context


def _shown(stack: traceback.StackSummary, folder: Path) -> list[traceback.FrameSummary]:
    """The frames of the submission; of a library's, where there are none, the last by name."""
    own = [
        _frame(f, str(Path(f.filename).relative_to(folder))) for f in stack if _is_own(f, folder)
    ]
    return own or [
        _frame(f, Path(f.filename).name)
        for f in stack[-1:]
        if not Path(f.filename).is_relative_to(_GRADER)
    ]


def _is_own(frame: traceback.FrameSummary, folder: Path) -> bool:
    file = Path(frame.filename)
    # the folder may be the one that the grader lies in
    return file.is_relative_to(folder) and not file.is_relative_to(_GRADER)


def _frame(frame: traceback.FrameSummary, name: str) -> traceback.FrameSummary:
    return traceback.FrameSummary(
        name, frame.lineno, frame.name, lookup_line=False, line=frame.line
    )


def _cut(text: str, limit: int) -> str:
    """At most ``limit`` characters of JSON, where one beyond ASCII takes six; the middle goes."""
    whole = text.encode("utf-8", "replace").decode()  # half a surrogate pair is no text
    shown, half = whole, limit // 2
    while len(json.dumps(shown)) > limit:
        half = half * 7 // 8
        shown = f"{whole[:half]}\n[... {len(whole) - 2 * half} characters cut ...]\n{whole[-half:]}"
    return shown
