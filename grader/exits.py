"""Exit codes of the command line, and how a command ends with one."""

from __future__ import annotations

import sys
from typing import NoReturn

OK, BELOW_MIN_SCORE, USAGE, GRADER_ERROR, INTERRUPTED = 0, 1, 2, 3, 130
# of commands that only look: what they looked for is not so
FAILED = 1


def fail(message: str, code: int) -> NoReturn:
    """Say what is wrong and exit."""
    import typer  # noqa: PLC0415  __main__ says what to do where it is missing

    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(code)
