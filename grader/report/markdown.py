"""The speeds of a scorecard as a Markdown table, to keep beside it. Measures nothing."""

from __future__ import annotations

from collections.abc import Sequence

from grader.report.wording import plain
from grader.scorecard import PerformanceRow, Scorecard

_BASELINES = ("eager", "builtin", "compile")
_HEADS = ("problem", "case", "phase", "ms", *_BASELINES, "roofline %", "outputs verified")
_N_LEFT = 3


def speeds(card: Scorecard) -> str:
    """Where it was measured, then one line for each case and phase that was.

    Time is the submission's, a ratio a baseline's time over it.

    Raises:
        ValueError: If the card holds no measured time.
    """
    by_test: dict[tuple[str, str, str], dict[str, PerformanceRow]] = {}
    for row in card.performance:
        if row.median_ms is not None:
            by_test.setdefault((row.problem, row.case, row.phase), {})[row.impl] = row
    lines = [_line(test, rows) for test, rows in by_test.items() if "submission" in rows]
    if not lines:
        raise ValueError("no time was measured in this scorecard")
    ruled = ("---",) * _N_LEFT + ("---:",) * (len(_HEADS) - _N_LEFT)
    table = "\n".join(map(_cells, (_HEADS, ruled, *lines)))
    # a card is a file that anybody can write, down to the name of its GPU
    return plain(f"{_machine(card)}\n\n{table}\n")


def _machine(card: Scorecard) -> str:
    seen = card.environment
    return (
        f"{seen.gpu}, driver {seen.gpu_driver}, Python {seen.python}, torch {seen.torch}"
        f" (CUDA {seen.cuda}), triton {seen.triton}."
    )


def _line(test: tuple[str, str, str], rows: dict[str, PerformanceRow]) -> Sequence[str]:
    problem, case, phase = test
    own = rows["submission"]
    ratios = [rows[name].ratio if name in rows else None for name in _BASELINES]
    return (
        problem,
        case,
        phase,
        f"{own.median_ms:.3f}{'' if own.status == 'measured' else ' (unstable)'}",
        *("-" if ratio is None else f"{ratio:.3f}" for ratio in ratios),
        "-" if own.roofline_pct is None else f"{own.roofline_pct:.1f}",
        f"{own.n_verified} of {own.n}",
    )


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
