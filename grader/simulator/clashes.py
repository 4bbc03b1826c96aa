"""Lanes of one program that store different values to one element: on a GPU either may stay.

Equal values are nobody's loss: a sum that all lanes hold, a block cut so that its columns overlap.
Several programs at one element are a race of their own kind, which races.py finds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.simulator import advice
from grader.simulator.dtypes import Array
from grader.simulator.lanes import Access
from grader.simulator.races import alike


def check(access: Access, new: Array, stored: Array) -> None:
    """Report elements that a store left undefined.

    Args:
        access: The store; lanes out of bounds are masked.
        new: Shape (active lanes,), what they wrote.
        stored: Likewise, what lies there now. A lane that finds what it wrote is no loser, so only
            where lanes clash are elements sorted.
    """
    if alike(new, stored).all():
        return
    element, program = access.elements, access.programs
    order = np.lexsort((element, program))
    element, program, value = element[order], program[order], new[order]
    together = (element[1:] == element[:-1]) & (program[1:] == program[:-1])
    clash = np.flatnonzero(together & ~alike(value[1:], value[:-1]))
    if clash.size:
        _report(access, order, new, clash, n=_count(element[clash], program[clash]))


def _count(element: Array, program: Array) -> int:
    """Elements, counted once for each program; both sorted by program and then element."""
    return 1 + int(np.count_nonzero((np.diff(element) != 0) | (np.diff(program) != 0)))


def _report(access: Access, order: Array, new: Array, clash: Array, *, n: int) -> None:
    # the first of them in memory of the first program
    one, two = (int(order[clash[0] + k]) for k in (0, 1))
    argument, current = access.argument, access.run
    index = argument.index(int(access.elements[one]))
    lanes = [_lane(access, k) for k in (one, two)]
    t = access.buffer.dtype
    values = [t.decode(new[[k]])[0] for k in (one, two)]
    current.find(
        "race",
        int(np.searchsorted(current.ids, access.programs[one])),
        f"lanes {lanes[0]} and {lanes[1]} of one program store {values[0]} and {values[1]} to "
        f"{argument.name} at index {index}; which of the two stays is undefined",
        advice=advice.CLASH,
        argument=argument.name,
        index=index,
        count=n * access.times,
    )


def _lane(access: Access, k: int) -> Any:
    """The k-th active lane as an index into the block."""
    position = k if access.mask is None else int(np.flatnonzero(access.mask)[k])
    lane = tuple(int(i) for i in np.unravel_index(position, access.index.shape)[1:])
    return lane[0] if len(lane) == 1 else lane
