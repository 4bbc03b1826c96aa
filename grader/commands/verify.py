"""The command ``python -m grader verify``: arguments, table and exit codes only."""

from __future__ import annotations

import signal
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from grader.exits import FAILED, GRADER_ERROR, INTERRUPTED, USAGE, fail, on_signals

if TYPE_CHECKING:
    from grader.grading import Device
    from grader.soundness import Examined
    from grader.spec import Problem
    from grader.specimens import Specimen

ROOT = Path(__file__).resolve().parents[2]


def verify(
    problem: Annotated[list[str] | None, typer.Argument(help="Problems; all by default.")] = None,
    device: Annotated[
        Literal["cpu", "cuda"], typer.Option(help="Where forward and backward run.")
    ] = "cpu",
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Files graded at once; by default one a core, on a GPU 8."),
    ] = None,
) -> None:
    """Check the assignment itself: solutions earn all points, stubs none, wrong/ files are caught.

    Every file in wrong/ is graded in forward and in the group that it says must catch it. Nothing is
    timed. Exits with 1 if anything is not as it must be.

    For example:

      python -m grader verify

      python -m grader verify softmax gelu --jobs 1

      python3 -m grader verify --device cuda
    """
    from grader import discover, soundness, specimens
    from grader.grading import UsageError, resolve_device

    try:
        resolve_device(device)
        problems = discover.load_problems(problem or ())
        todo = [
            specimen
            for each in problems
            for specimen in specimens.specimens(each, discover.REFERENCE, ROOT / "assignment")
        ]
    except (UsageError, ValueError) as error:
        fail(str(error), USAGE)
    on_signals(signal.default_int_handler)
    started_s = time.monotonic()
    try:
        done = _examine(todo, device, jobs or soundness.default_jobs(device))
    except UsageError as error:
        fail(str(error), USAGE)
    except BrokenProcessPool:
        fail("a process was killed, for want of memory perhaps; try --jobs 1", GRADER_ERROR)
    except KeyboardInterrupt:
        fail("interrupted: nothing is known of the files that were not graded", INTERRUPTED)
    console = Console()
    console.print(_table(problems, done))
    faults = [fault for examined in done for fault in examined.complaints]
    for each in problems:
        its = [examined for examined in done if examined.specimen.problem == each.name]
        faults += soundness.lacking(each, its)
    for fault in faults:
        console.print(f"\n{fault}", markup=False, highlight=False, soft_wrap=True)
    spent_s = time.monotonic() - started_s
    if faults:
        what = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        fail(f"{what} in {len(done)} files, {spent_s:.0f} s", FAILED)
    unchecked = sum(not examined.is_checkable for examined in done)
    told = f"; {unchecked} could not be checked here" if unchecked else ""
    print(f"sound: {len(done) - unchecked} files are as they must be{told}, {spent_s:.0f} s")


def _examine(todo: list[Specimen], device: Device, jobs: int) -> list[Examined]:
    """All of them, with a live line on a terminal and a line for each elsewhere."""
    from grader import discover, soundness

    console = Console(stderr=True)
    live = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal or console.is_dumb_terminal,
    )
    done = []
    with live:
        task = live.add_task("starting", total=len(todo))
        for examined in soundness.examine_all(todo, device, discover.REFERENCE, jobs):
            done.append(examined)
            live.update(task, advance=1, description=examined.specimen.name)
            if live.disable or examined.complaints:
                state = "NOT as it must be" if examined.complaints else "as it must be"
                if not examined.is_checkable:
                    state = "not checkable here"
                line = f"{examined.specimen.name}: {state}, {examined.duration_s:.0f} s"
                console.print(line, markup=False, highlight=False)
    return done


def _table(problems: tuple[Problem, ...], done: list[Examined]) -> Table:
    table = Table(title="Is the assignment sound?")
    table.add_column("problem", no_wrap=True)
    for name in ("solution", "stub", "caught", "unchecked", "s"):
        table.add_column(name, justify="right")
    for problem in problems:
        its = [examined for examined in done if examined.specimen.problem == problem.name]
        by_part = {
            part: [examined for examined in its if examined.specimen.part == part]
            for part in ("solution", "stub", "wrong")
        }
        wrong = [examined for examined in by_part["wrong"] if examined.is_checkable]
        table.add_row(
            problem.name,
            *(
                "/".join(_points(n) for n in (one.score, one.max_score_measured))
                for part in ("solution", "stub")
                for one in by_part[part]
            ),
            f"{sum(not examined.complaints for examined in wrong)}/{len(wrong)}",
            str(sum(not examined.is_checkable for examined in its)),
            f"{sum(examined.duration_s for examined in its):.0f}",
        )
    return table


def _points(n: float | None) -> str:
    return "-" if n is None else f"{n:.2f}"
