"""A comparison as Markdown and as JSON. Measures nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grader.lab.compare import DTYPE, Comparison, Timed, copy_ms
from grader.scorecard import Environment


@dataclass(frozen=True)
class Circumstances:
    """What all tables of one run have in common.

    Attributes:
        date: Such as 2026-11-30.
        command: What was typed.
        n: Rows and columns of the matrix.
        copy_bytes_per_s: Measured; bytes read plus bytes written.
        notes_gpu: What the course notes' numbers were measured on.
    """

    environment: Environment
    date: str
    command: str
    n: int
    n_calls: int
    copy_bytes_per_s: float
    notes_gpu: str


def markdown(
    circumstances: Circumstances, tables: Sequence[tuple[Comparison, Sequence[Timed]]]
) -> str:
    """The tables with what they were measured on, and how."""
    titles = [comparison.title for comparison, _ in tables]
    sections = [_section(circumstances, comparison, rows) for comparison, rows in tables]
    return "\n\n".join(
        [f"# {', '.join(titles)}, each several ways", _head(circumstances), *sections]
    )


def as_json(
    circumstances: Circumstances, tables: Sequence[tuple[Comparison, Sequence[Timed]]]
) -> dict[str, Any]:
    """The same as data; times in ms."""
    return {
        "environment": circumstances.environment.model_dump(),
        "date": circumstances.date,
        "command": circumstances.command,
        "shape": [circumstances.n, circumstances.n],
        "dtype": DTYPE,
        "calls": circumstances.n_calls,
        "copy_bytes_per_s": circumstances.copy_bytes_per_s,
        "notes_gpu": circumstances.notes_gpu,
        "comparisons": [
            {
                "name": comparison.name,
                "ways": [_way_as_json(circumstances, row, rows) for row in rows],
            }
            for comparison, rows in tables
        ],
    }


def faster(row: Timed, first: Timed) -> float | None:
    """How many times faster than the first way: 4 ms beside 8 ms is 2; None without both times."""
    if row.ms is None or first.ms is None:
        return None
    return first.ms.value / row.ms.value


def notes_faster(row: Timed, first: Timed) -> float | None:
    """Likewise by the course notes' times."""
    if row.way.notes_ms is None or first.way.notes_ms is None:
        return None
    return first.way.notes_ms / row.way.notes_ms


def of_copy_pct(row: Timed, circumstances: Circumstances) -> float | None:
    """The time of a copy of the same matrix over this time, in percent."""
    if row.ms is None:
        return None
    return 100 * copy_ms(circumstances.n, circumstances.copy_bytes_per_s) / row.ms.value


def _head(circumstances: Circumstances) -> str:
    env, n = circumstances.environment, circumstances.n
    copy_tb_per_s = circumstances.copy_bytes_per_s / 1e12
    return f"""{env.gpu}, driver {env.gpu_driver}, Python {env.python}, torch {env.torch} \
(CUDA {env.cuda}), triton {env.triton}, {circumstances.date}:

    {circumstances.command}

Every way computes y from a {n} x {n} matrix x in {DTYPE}. Time is the median GPU time
of {circumstances.n_calls} calls, in ms, with a cold L2 and inputs of its own for each call; the ways take
turns in random order. Results agree with float64. A copy moves {copy_tb_per_s:.2f}
TB/s here, reads and writes counted; *of a copy* is the time of a copy of x over the way's time.
*Faster* is beside the first way of its table."""


def _section(circumstances: Circumstances, comparison: Comparison, rows: Sequence[Timed]) -> str:
    has_notes = any(row.way.notes_ms is not None for row in rows)
    notes = (
        f"\n\nThe notes' times, measured on an {circumstances.notes_gpu} at a size they do not give,"
        " are in the last two columns."
        if has_notes
        else ""
    )
    lines = "\n".join(_lines(circumstances, rows, has_notes=has_notes))
    return f"## {comparison.title}\n\n{lines}{notes}"


def _lines(
    circumstances: Circumstances, rows: Sequence[Timed], *, has_notes: bool
) -> Iterator[str]:
    extra = ["notes, ms", "faster"] if has_notes else []
    columns = ["way", "what runs", "ms", "of a copy", "faster", *extra]
    yield _line(columns)
    yield "|---|---|" + "---:|" * (len(columns) - 2)
    for row in rows:
        cells = [
            row.way.name,
            row.way.what,
            "-" if row.ms is None else f"{row.ms.value:.3f}",
            _cell(of_copy_pct(row, circumstances), ".0f", " %"),
            _cell(faster(row, rows[0]), ".2f"),
        ]
        if has_notes:
            cells += [_cell(row.way.notes_ms, "g"), _cell(notes_faster(row, rows[0]), ".2f")]
        yield _line(cells)
    for row in rows:
        if row.reason:
            yield f"\n{row.way.name} was not timed: {' '.join(row.reason.split())}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: float | None, style: str, unit: str = "") -> str:
    return "-" if value is None else f"{value:{style}}{unit}"


def _way_as_json(circumstances: Circumstances, row: Timed, rows: Sequence[Timed]) -> dict[str, Any]:
    return {
        "name": row.way.name,
        "what": row.way.what,
        "median_ms": None if row.ms is None else row.ms.value,
        "ci95": None if row.ms is None else [row.ms.low, row.ms.high],
        "of_copy_pct": of_copy_pct(row, circumstances),
        "faster": faster(row, rows[0]),
        "notes_ms": row.way.notes_ms,
        "notes_faster": notes_faster(row, rows[0]),
        "reason": row.reason,
    }
