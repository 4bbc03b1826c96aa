"""Exit codes of the command line, and how a command ends with one."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

OK, BELOW_MIN_SCORE, USAGE, GRADER_ERROR, INTERRUPTED = 0, 1, 2, 3, 130
# of commands that only look: what they looked for is not so
FAILED = 1


def on_signals(handler: Callable[[int, FrameType | None], object]) -> None:
    """A scheduler's SIGTERM and a closed terminal are answered as Ctrl-C is, unless ignored (nohup)."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def fail(message: str, code: int) -> NoReturn:
    """Say what is wrong and exit."""
    import typer  # noqa: PLC0415  __main__ says what to do where it is missing

    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(code)
