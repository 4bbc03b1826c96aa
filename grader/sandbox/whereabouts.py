"""Where a worker is: asked by a signal, it leaves its stacks in its scratch folder, whatever it does.

For a message only: a student's code may write what it likes there, so nothing is decided by it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from grader.submission import read_regular

_SIGNAL: Final = signal.SIGUSR1
_FILE: Final = "stacks"
_ANSWER_S: Final = 1.0
_POLL_S: Final = 0.01
_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d{1,7}) in (?P<function>.{1,100})$')


@dataclass(frozen=True)
class Place:
    """A line of the submission.

    Attributes:
        file: Relative to the submission's folder.
    """

    file: str
    line: int
    function: str
    source_line: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def answer(scratch: Path) -> None:
    """Write this process's stacks into a file whenever it is asked. The worker's side."""
    # faulthandler writes to its descriptor for as long as the process lives
    file = os.open(scratch / _FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    faulthandler.register(_SIGNAL, file=file, all_threads=True, chain=False)


def ask(pid: int, scratch: Path, folder: Path) -> Place | None:
    """The innermost line of the submission in ``folder`` that a worker runs now, if it tells.

    The signal may end a process that does not expect it: ask only what is to be ended anyway.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, _SIGNAL)
    return place(_answered(scratch / _FILE), folder)


def _answered(file: Path) -> str:
    """What is written, once it is there and grows no more."""
    deadline, before = time.monotonic() + _ANSWER_S, b""
    while time.monotonic() < deadline:
        said = read_regular(file) or b""
        if said and said == before:
            break
        before = said
        time.sleep(_POLL_S)
    return before.decode(errors="replace")


def place(stacks: str, folder: Path) -> Place | None:
    """The first line of ``folder`` in stacks written by faulthandler; the current thread's, if any."""
    _, _, current = stacks.partition("Current thread")
    for stack in (current.partition("\n\n")[0], stacks):
        for match in map(_FRAME.match, stack.splitlines()):
            if match and Path(match["file"]).is_relative_to(folder):
                return _at(Path(match["file"]), int(match["line"]), match["function"], folder)
    return None


def _at(file: Path, line: int, function: str, folder: Path) -> Place:
    source = (read_regular(file) or b"").decode(errors="replace").splitlines()
    text = source[line - 1].strip() if 0 < line <= len(source) else ""
    return Place(str(file.relative_to(folder)), line, function, text)
