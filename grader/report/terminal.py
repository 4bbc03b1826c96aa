"""A scorecard as text for a terminal, from pure functions. Computes no score, reads no file.

Works at any width, without colour (NO_COLOR, a pipe, TERM=dumb) and in an ASCII locale. Text that
student code had a hand in is shown with its control characters escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.report.columns import columns
from grader.report.kernels import kernels
from grader.report.performance import performance
from grader.report.wording import plain, points
from grader.scorecard import ProblemResult, Scorecard, Status, TestResult, Verdict
from grader.spec import GROUPS

# the scorecard file has all failures in full
SHOWN_OF_A_KIND = 2
MAX_NAMED = 8
RERUN = "rerun it: "  # begins the line of a cause that holds a command

_STYLES = {
    Status.GRADED: "bold",
    Status.PARTIAL: "bold yellow",
    Status.HELD: "bold yellow",
    Status.GRADER_ERROR: "bold red",
}
_NOT_CHECKED = frozenset({Verdict.NOT_CHECKABLE, Verdict.NOT_MEASURED})
# one cause holds for the whole problem, so showing it once per verdict is enough
_ALIKE = frozenset(
    {
        Verdict.IMPORT_ERROR,
        Verdict.NOT_IMPLEMENTED,
        Verdict.NOT_CHECKABLE,
        Verdict.NOT_MEASURED,
        Verdict.BLOCKED,
        Verdict.COMPILE_ERROR,
    }
)


def print_card(card: Scorecard, console: Console) -> None:
    """Print the whole card."""
    console.print(render(card, width=console.width), crop=False)


def render(card: Scorecard, *, width: int) -> RenderableType:
    """The whole card: problems, failures, performance, circumstances, and last the summary."""
    parts = [
        problems(card, width=width),
        *failures(card),
        performance(card, width=width),
        *_together(kernels(card.problems)),
        circumstances(card),
        Text(summary(card), style=_STYLES[card.status]),
    ]
    spaced = [piece for part in parts for piece in (part, Text())]
    return Group(*spaced[:-1])


def summary(card: Scorecard) -> str:
    """One line, such as ``58.00 of 58.00 measured here, 100 in all``."""
    if card.score is None or card.max_score_measured is None:
        return f"No score{' yet' if card.status is Status.HELD else ''}, {plain(card.reason)}"
    line = (
        f"{card.score:.2f} of {card.max_score_measured:.2f} measured here, "
        f"{points(card.max_score)} in all"
    )
    if card.status is Status.PARTIAL:
        return f"{line} (partial: {plain(card.reason)})"
    return line


def problems(card: Scorecard, *, width: int) -> RenderableType:
    """Per problem: passed of checked tests in each group, points for speed, points in all.

    A star marks a group in which some test could not be checked here.
    """
    rows = [_problem_row(card, problem) for problem in card.problems]
    heads = ["problem", *GROUPS, "speed", "points", "worth"]
    table = columns(heads, rows, width=width, styles=[_problem_style(p) for p in card.problems])
    shown: list[RenderableType] = [table] if table else [_sentence(heads, row) for row in rows]
    if any(cell.endswith("*") for row in rows for cell in row):
        note = "* without the tests that could not be checked here; see below"
        shown.append(Text(note, style="dim"))
    return Group(*shown)


def _together(lines: Sequence[RenderableType]) -> list[RenderableType]:
    return [Group(*lines)] if lines else []


def _sentence(heads: Sequence[str], row: Sequence[str]) -> Text:
    named = zip(heads[1:], row[1:], strict=True)
    return Text(f"{row[0]}: ", style="bold") + Text(
        ", ".join(f"{head} {cell}" for head, cell in named if cell != "-"), style="not bold"
    )


def _problem_style(problem: ProblemResult) -> str:
    if problem.score is None:
        return "red" if problem.status is Status.GRADER_ERROR else "yellow"
    return "green" if problem.score == problem.max_score_measured else ""


def _problem_row(card: Scorecard, problem: ProblemResult) -> list[str]:
    paid = [
        threshold
        for row in card.performance
        if row.problem == problem.name
        for threshold in row.thresholds
        if threshold.share is not None
    ]
    earned = math.fsum(threshold.points for threshold in paid)
    could = math.fsum(threshold.max_points for threshold in paid)
    if problem.score is None or problem.max_score_measured is None:
        total = "under review" if problem.status is Status.HELD else "grader error"
    else:
        total = f"{problem.score:.2f}/{problem.max_score_measured:.2f}"
        total += " partial" if problem.status is Status.PARTIAL else ""
    return [
        problem.name,
        *(_group_cell([test for test in problem.tests if test.group == g]) for g in GROUPS),
        f"{earned:.2f}/{could:.2f}" if paid else "-",
        total,
        points(problem.max_score),
    ]


def _group_cell(tests: Sequence[TestResult]) -> str:
    if not tests:
        return "-"
    checked = [test for test in tests if test.verdict not in _NOT_CHECKED]
    passed = sum(test.verdict is Verdict.PASSED for test in checked)
    return f"{passed}/{len(checked)}{'' if len(checked) == len(tests) else '*'}"


def failures(card: Scorecard) -> list[RenderableType]:
    """What did not pass, with its cause, problem by problem; empty when all passed.

    Failures of one group and verdict are of one kind: the first SHOWN_OF_A_KIND are told in full,
    the others named.
    """
    shown: list[RenderableType] = []
    for problem in card.problems:
        # the reason of a problem without a score is mostly the cause of one of its tests
        if problem.reason and not any(t.cause and t.cause in problem.reason for t in problem.tests):
            shown.append(_failure(problem.name, str(problem.status), problem.reason))
        for tests in _kinds(problem.tests):
            n = 1 if tests[0].verdict in _ALIKE else SHOWN_OF_A_KIND
            shown += [_failure(t.id, str(t.verdict), _cause(t)) for t in tests[:n]]
            if tests[n:]:
                shown.append(_likewise(tests[n:]))
    return shown


def _kinds(tests: Iterable[TestResult]) -> Iterable[list[TestResult]]:
    kinds: dict[object, list[TestResult]] = {}
    for test in tests:
        if test.verdict is not Verdict.PASSED:
            kind = test.verdict if test.verdict in _ALIKE else (test.group, test.verdict)
            kinds.setdefault(kind, []).append(test)
    return kinds.values()


def _likewise(tests: Sequence[TestResult]) -> Text:
    # case ids need no group where all are of one
    is_one_group = len({test.group for test in tests}) == 1
    names = [test.case if is_one_group else f"{test.group} {test.case}" for test in tests]
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    told = f"Likewise {tests[0].verdict}: {', '.join(names[:MAX_NAMED])}{more}"
    own = "" if tests[0].verdict in _ALIKE else " (the scorecard has what each says)"
    return Text(plain(told + own), style="dim")


def _cause(test: TestResult) -> str:
    # the line above it says where already
    return test.cause.removeprefix(f"{test.id}: ")


def _failure(where: str, verdict: str, cause: str) -> RenderableType:
    head = Text(f"{plain(where)}  ", style="bold") + Text(verdict, style="red")
    # a command that is wrapped here cannot be copied; left whole, the terminal wraps it
    lines = [
        Text(f"  {line}", no_wrap=True, overflow="ignore")
        if line.lstrip().startswith(RERUN)
        else Padding(Text(line), (0, 0, 0, 2))
        for line in plain(cause).split("\n")
    ]
    return Group(head, *lines)


def circumstances(card: Scorecard) -> RenderableType:
    """What was graded, where, and how apart the student's code was kept."""
    env, isolation = card.environment, card.isolation
    versions = [
        f"Python {env.python}",
        f"torch {env.torch}",
        f"triton {env.triton}" if env.triton else "no triton",
        f"numpy {env.numpy}",
        env.platform,
    ]
    gpu = [part for part in (env.gpu, env.gpu_driver and f"driver {env.gpu_driver}") if part]
    cases = "public cases only" if card.assignment.part == "public" else "with hidden cases"
    n_files = len(card.submission.files)
    files = f"{n_files} file{'' if n_files == 1 else 's'}"
    lines = [
        ("submission", f"{card.submission.path}, {files}, {cases}"),
        ("kernels ran in", ", ".join([env.backend, *gpu])),
        ("environment", ", ".join(versions)),
        ("isolation", f"{isolation.level}: {', '.join(isolation.in_force) or 'nothing in force'}"),
    ]
    if isolation.missing:
        lines.append(("", f"missing: {', '.join(isolation.missing)}"))
    if card.submission.ignored:
        lines.append(("not taken", ", ".join(card.submission.ignored)))
    lines += [("worker ended", f"{a.problem} ({a.backend}): {a.ended}") for a in card.attempts]
    lines += [("note", note) for note in card.integrity]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for label, text in lines:
        grid.add_row(label, Text(plain(text)))
    return grid
