"""Is the assignment itself sound? Solutions earn everything, stubs nothing, known mistakes are caught.

What runs here on every specimen is what runs on a student's file; nothing is timed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from grader import card
from grader.grading import Device, Request, opened
from grader.sandbox.launcher import Launcher
from grader.scorecard import Verdict
from grader.spec import Group, Problem
from grader.specimens import Expectation, Specimen

# fixed, so that a mistake caught by one draw of inputs is caught by the next run, too
SEED: Final = 20261129
MIN_WRONG: Final = {"kernel": 6, "scenario": 3}


@dataclass(frozen=True)
class Ended:
    """How one test of a specimen ended."""

    group: Group
    case: str
    verdict: Verdict
    cause: str


@dataclass(frozen=True)
class Examined:
    """A specimen that was graded.

    Attributes:
        score: Of ``groups`` alone, as ``max_score_measured``; None if there is none.
        complaints: What is not as it must be; empty if all is well.
    """

    specimen: Specimen
    ended: tuple[Ended, ...]
    score: float | None
    max_score_measured: float | None
    duration_s: float
    complaints: tuple[str, ...] = ()

    @property
    def is_checkable(self) -> bool:
        """Whether this machine could check any of it."""
        return any(one.verdict is not Verdict.NOT_CHECKABLE for one in self.ended)


def examine(
    specimen: Specimen, device: Device, reference: Path, launcher: Launcher | None = None
) -> Examined:
    """Grade one specimen in its groups and say what is not as it must be."""
    started_s = time.monotonic()
    request = Request(
        specimen.path, (specimen.problem,), device=device, seed=SEED, reference=reference
    )
    with opened(request, launcher) as grading:
        results = card.Results(grading)
        for trial in grading.trials(specimen.groups):
            results.add(trial, grading.judge(trial), 0.0)
        (problem,) = card.build(results).problems
        kind = grading.problems[0].kind
    examined = Examined(
        specimen,
        tuple(
            Ended(outcome.group, outcome.case, outcome.check.verdict, outcome.check.cause)
            for outcome in results.outcomes[specimen.problem]
        ),
        problem.score,
        problem.max_score_measured,
        time.monotonic() - started_s,
    )
    return replace(examined, complaints=complaints(examined, allows_unchecked=kind == "scenario"))


def complaints(examined: Examined, *, allows_unchecked: bool) -> tuple[str, ...]:
    """What is not as it must be with one specimen.

    Args:
        examined: How its tests ended.
        allows_unchecked: Some cases of a scenario need what not every machine has.
    """
    specimen = examined.specimen
    ended = [
        one
        for one in examined.ended
        if not (allows_unchecked and one.verdict is Verdict.NOT_CHECKABLE)
    ]
    if not ended:
        return ()
    if specimen.expected is not None:
        return _uncaught(specimen, specimen.expected, ended)
    want = Verdict.PASSED if specimen.part == "solution" else Verdict.NOT_IMPLEMENTED
    found = [
        f"{specimen.name}: {one.group} [{one.case}] is {one.verdict}, must be {want}\n{one.cause}"
        for one in ended
        if one.verdict is not want
    ]
    wanted_score = examined.max_score_measured if specimen.part == "solution" else 0.0
    if examined.score != wanted_score or not examined.max_score_measured:
        found.append(
            f"{specimen.name}: earns {examined.score} of {examined.max_score_measured} points,"
            f" must earn {'all of them' if specimen.part == 'solution' else 'none'}"
        )
    return tuple(found)


def _uncaught(specimen: Specimen, expected: Expectation, ended: Sequence[Ended]) -> tuple[str, ...]:
    """Whether the named group, and in it the named cases, gave the named verdict, and no other."""
    in_group = [one for one in ended if one.group == expected.group]
    failed = [one for one in in_group if one.verdict is not Verdict.PASSED]
    checked = {one.case for one in in_group}
    if expected.cases is not None and checked.isdisjoint(expected.cases):
        return ()  # what must catch it needs another machine
    if in_group and not failed:
        return (f"{specimen.name}: passes {expected.group}, must be {expected.verdict} there",)
    found = [
        f"{specimen.name}: {one.group} [{one.case}] is {one.verdict}, must be {expected.verdict}"
        f"\n{one.cause}"
        for one in failed
        if one.verdict is not expected.verdict
    ]
    if expected.cases is not None:
        caught = {one.case for one in failed}
        wanted = checked & set(expected.cases)
        if caught != wanted:
            found.append(
                f"{specimen.name}: {expected.group} catches it in {_listed(caught)},"
                f" must in {_listed(wanted)}"
            )
    return tuple(found)


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "no case"


def lacking(problem: Problem, examined: Sequence[Examined]) -> tuple[str, ...]:
    """The kinds of mistake that no wrong file of a problem makes.

    Whatever is caught by forward, too, does not show that another group is of use.
    """
    wrong = [one for one in examined if one.specimen.part == "wrong"]
    where = f"reference/{problem.name}/wrong/"
    found = []
    if len(wrong) < MIN_WRONG[problem.kind]:
        found.append(f"{where} has {len(wrong)} files, needs {MIN_WRONG[problem.kind]} or more")
    if problem.kind == "scenario":
        return tuple(found)
    failed = [[e for e in one.ended if e.verdict is not Verdict.PASSED] for one in wrong]
    groups = [{e.group for e in its} for its in failed]
    if {"memory"} not in groups:
        found.append(f"{where}: no file is caught by memory and passes forward")
    if not any(len({e.case for e in its}) == 1 for its in failed):
        found.append(f"{where}: no file is caught by a single case")
    if problem.differentiable and {"backward"} not in groups:
        found.append(f"{where}: no file is caught by backward and passes forward")
    return tuple(found)


# One launcher for each process of the pool: starting the process that forks workers takes 2 s.
_launchers: list[Launcher] = []


def _begin(folder: str) -> None:
    """Set up a process of the pool: all that it leaves lies in this folder of the parent's."""
    # a Ctrl-C in the terminal is answered by the process that waits for us
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tempfile.tempdir = folder
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _launchers.append(Launcher())


def _end_with_parent() -> None:
    """Workers die with this process, and it must not outlive a parent that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _examine_in_pool(specimen: Specimen, device: Device, reference: Path) -> Examined:
    return examine(specimen, device, reference, _launchers[0])


def examine_all(
    todo: Sequence[Specimen], device: Device, reference: Path, jobs: int
) -> Iterator[Examined]:
    """Grade all specimens in ``jobs`` processes; yields each as it ends.

    Raises:
        BrokenProcessPool: If a process was killed, for want of memory perhaps.
    """
    # whole solutions first: the longest job must not be the last to begin
    order = sorted(todo, key=lambda specimen: specimen.part != "solution")
    # not forked: this process may hold threads and a GPU
    spawn = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory(prefix="kernelgrade-", ignore_cleanup_errors=True) as folder,
        ProcessPoolExecutor(min(jobs, len(order)), spawn, _begin, (folder,)) as pool,
    ):
        running = _submitted(pool, [(specimen, device, reference) for specimen in order])
        try:
            for future in as_completed(running):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _submitted(
    pool: ProcessPoolExecutor, todo: Sequence[tuple[Specimen, Device, Path]]
) -> list[Future[Examined]]:
    """Hand everything to the pool, whose processes start here and inherit what is ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return [pool.submit(_examine_in_pool, *each) for each in todo]
    finally:
        signal.signal(signal.SIGINT, before)


def default_jobs(device: Device) -> int:
    """One for each core; on a GPU at most 8, since each holds two contexts of some 500 MB."""
    cores = os.cpu_count() or 1
    return min(cores, 8) if device == "cuda" else cores
