"""The performance part of a card as a table. Measures nothing and pays nothing."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from grader.report.columns import columns
from grader.report.wording import plain, points
from grader.scorecard import PerformanceRow, Scorecard

_HEADS = ("case", "phase", "impl", "median ms", "ratio", "95 %", "calls", "verified", "points")


def performance(card: Scorecard, *, width: int) -> RenderableType:
    """Every measured row, why others were not, and the controls; or why nothing was measured."""
    rows = card.performance
    measured = [row for row in rows if row.median_ms is not None]
    why_not = list(dict.fromkeys(row.reason for row in rows if row.median_ms is None))
    if not measured:
        because = f": {'; '.join(why_not)}" if why_not else "."
        return Text(plain(f"Performance was not measured{because}"))
    cells = [_cells(row) for row in measured]
    parts: list[RenderableType] = [columns(_HEADS, cells, width=width, n_left=3) or _lines(cells)]
    parts += [Text(plain(f"Not measured: {reason}")) for reason in why_not]
    parts += [Text(plain(f"{_where(row)}: {row.reason}")) for row in measured if row.reason]
    parts += [
        Text(plain(f"{_where(row)} against {paid.baseline}: {paid.reason}"))
        for row in rows
        for paid in row.thresholds
        if paid.reason and paid.reason != row.reason
    ]
    if card.controls:
        parts.append(_controls(card))
    return Group(*parts)


def _cells(row: PerformanceRow) -> tuple[str, ...]:
    maximum = math.fsum(paid.max_points for paid in row.thresholds)
    earned = math.fsum(paid.points for paid in row.thresholds)
    return (
        f"{row.problem} {row.case}",
        row.phase,
        row.impl + ("" if row.status == "measured" else f" ({row.status})"),
        f"{row.median_ms:.4f}" if row.median_ms is not None else "-",
        f"{row.ratio:.3f}x" if row.ratio is not None else "-",
        f"{row.ci95[0]:.3f}..{row.ci95[1]:.3f}" if row.ci95 is not None else "-",
        str(row.n),
        str(row.n_verified) if row.impl == "submission" else "-",
        f"{earned:.2f}/{points(maximum)}" if row.thresholds else "-",
    )


def _lines(rows: list[tuple[str, ...]]) -> RenderableType:
    paragraphs: list[RenderableType] = []
    for case, *cells in rows:
        named = zip(_HEADS[1:], cells, strict=True)
        paragraphs += [
            Text(case),
            Padding(Text(", ".join(f"{h} {c}" for h, c in named if c != "-")), (0, 0, 0, 2)),
        ]
    return Group(*paragraphs)


def _controls(card: Scorecard) -> RenderableType:
    failed = [control for control in card.controls if not control.passed]
    if not failed:
        return Text(f"All {len(card.controls)} controls of the measurement passed.")
    lines = [
        f"Control {c.name} ({c.dtype}) failed: got {c.got:g}, want {c.want:g}, allowed {c.allowed:g}"
        for c in failed
    ]
    return Text("\n".join(lines), style="red")


def _where(row: PerformanceRow) -> str:
    return f"{row.problem} [{row.case}] {row.phase} {row.impl}"
