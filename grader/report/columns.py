"""A table that fits, or none: nothing in a report is ever cut off."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

_GAPS = (2, 1)  # blanks between columns; narrower where that saves the table


def columns(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int,
    n_left: int = 1,
    styles: Sequence[str] = (),
) -> Table | None:
    """A table of whole cells, or None where ``width`` is too little for it.

    Args:
        heads: Column heads.
        rows: Cells, one line each.
        width: Of the terminal, in characters.
        n_left: So many columns are aligned left, the others right.
        styles: One for each row, if any.
    """
    widest = sum(max(map(len, column)) for column in zip(heads, *rows, strict=True))
    fitting = [gap for gap in _GAPS if widest + gap * (len(heads) - 1) <= width]
    if not fitting:
        return None
    table = Table(box=None, padding=(0, fitting[0], 0, 0), pad_edge=False)
    for i, head in enumerate(heads):
        table.add_column(Text(head), justify="left" if i < n_left else "right", no_wrap=True)
    for i, row in enumerate(rows):
        table.add_row(*map(Text, row), style=styles[i] if styles else None)
    return table
