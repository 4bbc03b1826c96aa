"""How far a running grading is. Shows what it is told; knows nothing of pytest or workers.

On a terminal: one live line (problem, group, tests done of expected, elapsed) under one line for
each finished problem. Elsewhere: only those lines.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Live

from grader.scorecard import Verdict
from grader.spec import Group


class GradingProgress:
    """Context manager; call ``test_done`` as each test ends.

    Args:
        expected: Tests per problem, in the order of grading.
        console: Where to write; usually standard error, so that a card on standard output can be
            piped.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        expected: Mapping[str, int],
        console: Console,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._expected = dict(expected)
        self._console = console
        self._clock = clock
        self._start_s = clock()
        self._done: Counter[str] = Counter()
        self._passed: Counter[str] = Counter()
        self._live = Live(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            # without a terminal a live line would be printed over and over
            disable=not console.is_terminal or console.is_dumb_terminal,
        )
        self._task = self._live.add_task("starting", total=sum(self._expected.values()))

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._live.stop()
        for problem, n in self._expected.items():
            if self._done[problem] < n:
                self._line(f"{problem}: stopped after {self._done[problem]} of {n} tests")

    def phase(self, what: str) -> None:
        """Say what is going on between tests, such as ``softmax: measuring``."""
        self._live.update(self._task, description=what)
        if self._live.disable:
            self._line(what)

    def test_done(self, problem: str, group: Group, verdict: Verdict) -> None:
        """Count one ended test."""
        self._done[problem] += 1
        self._passed[problem] += verdict is Verdict.PASSED
        self._live.update(self._task, advance=1, description=f"{problem} {group}")
        if self._done[problem] == self._expected.get(problem):
            n = self._done[problem]
            elapsed_s = self._clock() - self._start_s
            self._line(f"{problem}: {self._passed[problem]} of {n} tests passed, {elapsed_s:.0f} s")

    def _line(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)
