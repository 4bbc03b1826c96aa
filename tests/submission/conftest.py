"""Fixtures of the tests that students run and the grader runs.

The student's code runs in a process of its own; ``student`` talks to it. Every test leaves exactly
one record: the verdict, and in words what was wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.checks import Trial
from grader.grading import Grading, Request, UsageError, grader_error, opened
from grader.report.kernels import told
from grader.runner import Recorder
from grader.sandbox.client import Student
from grader.scorecard import Check, Verdict
from grader.spec import Case, Inputs, Problem

GRADING = pytest.StashKey[Grading]()
CLOSE = pytest.StashKey[Callable[[], None]]()
RECORD = pytest.StashKey[Check]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say what to test; the grader passes its own grading in instead."""
    group = parser.getgroup("submission")
    group.addoption("--submission", default="assignment", help="folder with the <problem>.py files")
    group.addoption("--problem", action="append", default=[], help="only this problem (repeatable)")
    group.addoption("--case", default=None, help="only this case id")
    group.addoption("--device", default="auto", choices=["auto", "cpu", "cuda"])
    group.addoption(
        "--direct",
        action="store_true",
        help="run the code in this process, without time limits, so that breakpoint() works",
    )
    group.addoption("--input-seed", type=int, default=None, help="draw the same inputs again")


def pytest_configure(config: pytest.Config) -> None:
    """Open a grading, unless the grader's runner brought one."""
    for plugin in config.pluginmanager.get_plugins():
        if isinstance(plugin, Recorder):
            config.stash[GRADING] = plugin.grading
            return
    if config.getoption("direct") and config.option.usepdb_cls is None:
        config.option.usepdb_cls = ("grader.debugger", "KernelPdb")
    context = opened(
        Request(
            path=Path(config.getoption("submission")),
            problems=tuple(config.getoption("problem")),
            case=config.getoption("case"),
            device=config.getoption("device"),
            seed=config.getoption("input_seed"),
            direct=config.getoption("direct"),
        )
    )
    try:
        config.stash[GRADING] = context.__enter__()
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error

    def close() -> None:
        context.__exit__(None, None, None)

    config.stash[CLOSE] = close


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """What the compiler made of the kernels, and what it noted."""
    compilers = config.stash[GRADING].compilers
    lines = [
        line
        for name in compilers
        for line in told(name, compilers[name].kernels(), compilers[name].notes)
    ]
    if lines:
        terminalreporter.section("compiled kernels, nothing was run")
        terminalreporter.write_line("\n".join(str(line) for line in lines))


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the processes of our own grading."""
    close = config.stash.get(CLOSE, None)
    if close is not None:
        close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each problem and case of the function's group."""
    if "trial" not in metafunc.fixturenames:
        return
    group = metafunc.function.__name__.removeprefix("test_")
    trials = metafunc.config.stash[GRADING].trials([group])
    metafunc.parametrize(
        "trial",
        [
            pytest.param(
                trial,
                id=f"{trial.problem.name}-{trial.case.id}",
                marks=[pytest.mark.hidden] if trial.case.visibility == "hidden" else [],
            )
            for trial in trials
        ],
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Problem by problem, so that each needs its process once and is complete before the next."""
    order = {trial.id: i for i, trial in enumerate(config.stash[GRADING].trials())}
    # pytest puts a placeholder where a group has no case
    items[:] = [item for item in items if isinstance(_trial(item), Trial)]
    items.sort(key=lambda item: order[_trial(item).id])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Hand the record on with the last report of a test; an exception of ours is one, too."""
    report = yield
    if call.excinfo is not None and RECORD not in item.stash:
        item.stash[RECORD] = grader_error(_trial(item).id, call.excinfo.value)
    if report.when == "teardown":
        report.kernelgrade = (_trial(item), item.stash.get(RECORD, None))  # type: ignore[attr-defined]  # read by grader.runner
    return report


def _trial(item: pytest.Item) -> Trial:
    trial: Trial = item.callspec.params["trial"]  # type: ignore[attr-defined]  # of Function items
    return trial


@pytest.fixture
def problem(trial: Trial) -> Problem:
    """What is asked for."""
    return trial.problem


@pytest.fixture
def case(trial: Trial) -> Case:
    """Sizes, dtype, layout, and why."""
    return trial.case


@pytest.fixture
def student(request: pytest.FixtureRequest, problem: Problem) -> Student:
    """The process that runs the student's code."""
    return request.config.stash[GRADING].student(problem)


@pytest.fixture
def inputs(request: pytest.FixtureRequest, trial: Trial) -> Inputs:
    """The arguments of the entry point, in order."""
    return request.config.stash[GRADING].inputs(trial)


@pytest.fixture
def rng(request: pytest.FixtureRequest, trial: Trial) -> torch.Generator:
    """What draws the gradients sent back."""
    return request.config.stash[GRADING].rng(trial)


@pytest.fixture
def record(
    request: pytest.FixtureRequest, json_metadata: dict[str, Any], trial: Trial, student: Student
) -> Callable[[Check], None]:
    """Record the check of this test, then end it: passed, failed, or skipped as not started."""

    def keep(check: Check) -> None:
        __tracebackhide__ = True
        check = request.config.stash[GRADING].finished(trial, student, check)
        request.node.stash[RECORD] = check
        json_metadata["record"] = check.model_dump(mode="json")
        if check.verdict in {Verdict.NOT_IMPLEMENTED, Verdict.NOT_CHECKABLE}:
            pytest.skip(check.cause)
        if check.verdict is not Verdict.PASSED:
            pytest.fail(check.cause, pytrace=False)

    return keep
