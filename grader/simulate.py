"""Runs a script as ``python FILE`` would, with the simulator for Triton and all checks on.

Student code runs in this very process, so that ``breakpoint()`` opens a debugger; nothing is confined,
nothing is graded.
"""

from __future__ import annotations

import bdb
import contextlib
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from grader import simulator
from grader.debugger import KernelPdb
from grader.sandbox.raised import describe
from grader.simulator import single_program

OK, FAILED, USAGE = 0, 1, 2
# a message of the simulator that says where: place, words, the source line
_PLACED = re.compile(r"(?P<file>[^\n]+?):(?P<line>\d+): (?P<what>.*)\n    [^\n]*", re.DOTALL)


def simulate(path: Path, arguments: Sequence[str], program: single_program.Program | None) -> int:
    """Run a script, then tell on stderr what its kernels did wrong.

    Args:
        path: The script; its folder comes first on ``sys.path``.
        arguments: Its ``sys.argv[1:]``.
        program: Run this program of each grid only.

    Returns:
        The exit code: the script's own; where that is 0, 1 if anything but notes was found; 2 if no
        launch has the program asked for.
    """
    # of one program alone, what the others write is missing
    recording = simulator.recording(reads_of_the_host=program is None)
    with recording as log, single_program.only(program):
        try:
            code = _run(path, arguments)
        except single_program.OutsideGridError as error:
            _say(f"error: {error}")
            return USAGE
        n_single = single_program.n_launches()
    _tell(log, code)
    if n_single:
        _say(f"in {n_single} of them only program {program} ran: what others write is missing")
    elif program is not None and code == OK:
        kernel = f"the kernel {program.kernel}" if program.kernel else "any kernel"
        _say(f"error: SIM_PROGRAM={program}: {path.name} did not launch {kernel}")
        return USAGE
    found = any(finding.kind != "note" for finding in log.findings)
    return FAILED if code == OK and found else code


def _run(path: Path, arguments: Sequence[str]) -> int:
    """The script's exit code; whatever it raises is shown with its own lines."""
    folder = path.resolve().parent
    try:
        with (
            _as_main(path, arguments),
            _debugger(),
            simulator.uncompiled(),
            simulator.pretend_gpu(),
        ):
            simulator.load_module(path, name="__main__")
    except SystemExit as ended:
        if isinstance(ended.code, str):
            _say(ended.code)
        return ended.code if isinstance(ended.code, int) else FAILED if ended.code else OK
    except bdb.BdbQuit:
        _say("stopped in the debugger")
        return FAILED
    except single_program.OutsideGridError:
        raise
    except KeyboardInterrupt as error:
        # where an endless loop was
        _say(describe(error, "call", folder)["traceback"].rstrip())
        raise
    except Exception as error:  # noqa: BLE001  the script may raise anything
        _say_raised(error, folder)
        return FAILED
    return OK


def _say_raised(error: Exception, folder: Path) -> None:
    """The script's own lines, then what is wrong: each thing once."""
    told = describe(error, "call", folder)
    message, lines = told["message"], told["traceback"].rstrip()
    if lines:
        _say(lines)
    place = _PLACED.match(message)
    if place and f'File "{place["file"]}", line {place["line"]}, in' in lines:
        # the line stands above, with the calls that led there
        message = place["what"]
    elif any(line.startswith(told["type"]) for line in lines.splitlines()):
        return
    elif told["kind"] == "deadlock":
        # the finding says the rest
        message = message.partition("\n")[0]
    _say(f"{told['type']}: {message}")


@contextlib.contextmanager
def _as_main(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Give the script the arguments and the path that ``python FILE`` gives it."""
    before = sys.argv, sys.path, sys.modules["__main__"]
    sys.argv, sys.path = [str(path), *arguments], [str(path.resolve().parent), *sys.path]
    try:
        yield
    finally:
        sys.argv, sys.path, sys.modules["__main__"] = before


@contextlib.contextmanager
def _debugger() -> Iterator[None]:
    """Let ``breakpoint()`` open pdb at the student's line; PYTHONBREAKPOINT goes before."""
    before, trace = sys.breakpointhook, sys.gettrace()
    debugger = KernelPdb()

    def stop(*_args: Any, **_kwargs: Any) -> None:
        debugger.set_trace(sys._getframe(1))  # noqa: SLF001  the caller, as pdb.set_trace does

    if "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = stop
    try:
        yield
    finally:
        sys.breakpointhook = before
        sys.settrace(trace)


def _tell(log: simulator.Log, code: int) -> None:
    """Findings in full, notes last, then what was launched."""
    here = f"{Path.cwd()}{os.sep}"
    for finding in sorted(log.findings, key=lambda finding: finding.kind == "note"):
        _say(str(finding).replace(here, ""))
    counted = Counter(launch.kernel for launch in log.launches)
    launches = ", ".join(name if n == 1 else f"{name} x {n}" for name, n in counted.items())
    n_notes = sum(finding.kind == "note" for finding in log.findings)
    n_found = len(log.findings) - n_notes
    notes = f", {n_notes} note{'s' * (n_notes != 1)}" if n_notes else ""
    found = f"{n_found or 'no'} finding{'s' * (n_found != 1)}"
    if code != OK:
        # what was not run was not checked
        launches = f"{launches or 'no kernel'} until the script failed (exit code {code})"
        found += " up to there"
    _say(f"simulated {launches or 'no kernel'}: {found}{notes}")


def _say(text: str) -> None:
    # the script's own output has stdout to itself
    sys.stdout.flush()
    print(text, file=sys.stderr, flush=True)
