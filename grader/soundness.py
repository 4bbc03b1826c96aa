"""Is the assignment itself sound? Solutions earn everything, stubs nothing, known mistakes are caught.

A *specimen* is a file of the course whose verdicts are known beforehand. What is run here is what runs
on a student's file; nothing is timed.
"""

from __future__ import annotations

import ast
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from grader import card
from grader.grading import Device, Request, opened
from grader.sandbox.launcher import Launcher
from grader.scorecard import Verdict
from grader.spec import GROUPS, Group, Problem

Part = Literal["solution", "stub", "wrong"]

# fixed, so that a mistake caught by one draw of inputs is caught by the next run, too
SEED: Final = 20261129
MIN_WRONG: Final = {"kernel": 6, "scenario": 3}
_CONSTANTS: Final = ("EXPECTED_VERDICT", "EXPECTED_GROUP", "EXPECTED_CASES")


@dataclass(frozen=True)
class Expectation:
    """What a wrong file says at its top: EXPECTED_VERDICT, EXPECTED_GROUP, EXPECTED_CASES.

    Attributes:
        cases: Ids of all cases of the group that catch it; None where any may.
    """

    verdict: Verdict
    group: Group
    cases: tuple[str, ...] | None


@dataclass(frozen=True)
class Specimen:
    """One file of one problem.

    Attributes:
        name: Such as "softmax/wrong/no_maximum".
        groups: The groups that are run on it.
        expected: Of a wrong file.
    """

    problem: str
    part: Part
    path: Path
    groups: tuple[Group, ...] = GROUPS
    expected: Expectation | None = None

    @property
    def name(self) -> str:
        """Where it belongs, without the place on this machine."""
        inner = f"wrong/{self.path.stem}" if self.part == "wrong" else self.part
        return f"{self.problem}/{inner}"


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


def specimens(problem: Problem, reference: Path, assignment: Path) -> tuple[Specimen, ...]:
    """All files of a problem whose verdicts are known: the solution, the stub, those in wrong/.

    Raises:
        ValueError: If a wrong file does not say what must catch it.
    """
    folder = reference / problem.name
    wrong = [
        Specimen(
            problem.name,
            "wrong",
            path,
            tuple(group for group in GROUPS if group in {"forward", expected.group}),
            expected,
        )
        for path in sorted((folder / "wrong").glob("*.py"))
        for expected in [read_expectation(path, problem)]
    ]
    return (
        Specimen(problem.name, "solution", folder / "solution.py"),
        Specimen(problem.name, "stub", assignment / f"{problem.name}.py"),
        *wrong,
    )


def read_expectation(path: Path, problem: Problem) -> Expectation:
    """What a wrong file says must catch it. The file is read, not run.

    Raises:
        ValueError: If it does not say so, or names what the problem does not have.
    """
    where = f"{path.parent.parent.name}/wrong/{path.name}"
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = {
            node.targets[0].id: ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id in _CONSTANTS
        }
    except (OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"{where} cannot be read: {error}") from error
    missing = [name for name in _CONSTANTS if name not in constants]
    if missing:
        raise ValueError(f"{where} must say at its top: {', '.join(missing)}")
    verdict, group, cases = (constants[name] for name in _CONSTANTS)
    if verdict not in set(Verdict):
        raise ValueError(f"{where}: EXPECTED_VERDICT {verdict!r} is no verdict")
    if group not in GROUPS:
        raise ValueError(
            f"{where}: EXPECTED_GROUP is {group!r}, must be one of {', '.join(GROUPS)}"
        )
    known = {case.id for case in problem.cases_in(group)}
    strangers = sorted(set(cases or ()) - known)
    if strangers:
        raise ValueError(
            f"{where}: EXPECTED_CASES names {', '.join(strangers)}; the cases of {group} are"
            f" {', '.join(sorted(known))}"
        )
    return Expectation(Verdict(verdict), group, None if cases is None else tuple(cases))


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
    if in_group and not failed:
        return (f"{specimen.name}: passes {expected.group}, must be {expected.verdict} there",)
    found = [
        f"{specimen.name}: {one.group} [{one.case}] is {one.verdict}, must be {expected.verdict}"
        f"\n{one.cause}"
        for one in failed
        if one.verdict is not expected.verdict
    ]
    if expected.cases is not None:
        checked = {one.case for one in in_group}
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


def _begin() -> None:
    # a Ctrl-C in the terminal is answered by the process that waits for us
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _launchers.append(Launcher())


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
    with ProcessPoolExecutor(
        min(jobs, len(order)), multiprocessing.get_context("spawn"), initializer=_begin
    ) as pool:
        running: list[Future[Examined]] = [
            pool.submit(_examine_in_pool, specimen, device, reference) for specimen in order
        ]
        try:
            for future in as_completed(running):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def default_jobs(device: Device) -> int:
    """One for each core; on a GPU at most 8, since each holds two contexts of some 500 MB."""
    cores = os.cpu_count() or 1
    return min(cores, 8) if device == "cuda" else cores
