"""Lanes that a mask leaves out of a load without ``other``: undefined on a GPU, and 0 here.

Harmless as long as a masked store drops them again, and a mistake when a sum, a maximum or a
product counts them. Which of the two it is shows by trying: a kernel with such a load runs again
with infinities in these lanes, and what it writes must not change. Each load is tried once per
kernel, constants and axes that its mask cuts; values that a kernel computed, its memory, its counts
and its other findings stay those of the first run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.simulator import advice, run, schedule
from grader.simulator.dtypes import Array, dtype
from grader.simulator.errors import source_line
from grader.simulator.launch_state import LaunchState, MaskedLoad
from grader.simulator.log import Finding
from grader.simulator.memory import Buffer, Contents
from grader.simulator.races import alike
from grader.simulator.run import Run
from grader.simulator.values import Value

# beyond that a launch is not tried: it would take long, and smaller ones show the same
_MAX_ELEMENTS = 1 << 24
_MAX_PASSES = 200

# per kernel, its constants and a load: whether its masked lanes reach what the kernel writes
_known: dict[tuple[Any, ...], bool] = {}


def stand_in(current: Run, argument: str, t: dtype, cut: tuple[int, ...]) -> Value | int:
    """What masked lanes of a load without ``other`` hold.

    Args:
        current: The pass.
        argument: The tensor argument's name.
        t: Type of its elements.
        cut: Axes of the block along which some lanes are masked.
    """
    launch = current.launch
    if launch.checked:
        current.masked_loads.add(MaskedLoad(run.here(), argument, cut))
    elif launch.trial is not None and launch.trial[0] == run.here():
        return Value(np.array([_extreme(t, launch.trial[1])], t.compute), t)
    return 0


def _extreme(t: dtype, sign: float) -> float:
    if t.is_floating():
        return math.inf * sign
    if t.is_bool():
        return True
    limits = np.iinfo(t.storage)
    return int(limits.max if sign > 0 else limits.min)


@dataclass(frozen=True)
class Trials:
    """A finished launch that can be run again.

    Attributes:
        key: Of the kernel and its constants.
    """

    key: tuple[Any, ...]
    function: Callable[[LaunchState], Callable[..., Any]]
    cooked: dict[str, Any]
    state: LaunchState
    buffers: Collection[Buffer]
    coordinates: Array


def notes(trials: Trials) -> list[Finding]:
    """A note for each load whose masked lanes reach what the kernel writes."""
    found = []
    for load in sorted(trials.state.masked_loads):
        key = (*trials.key, load)
        if key not in _known and not _is_large(trials):
            _known[key] = _matters(trials, load)
        if _known.get(key):
            found.append(_note(trials.state, load))
    return found


def _is_large(trials: Trials) -> bool:
    n_elements = sum(b.raw.size for b in trials.buffers if b.was_written)
    return n_elements > _MAX_ELEMENTS or trials.state.n_passes > _MAX_PASSES


def _matters(trials: Trials, load: MaskedLoad) -> bool:
    written = [b for b in trials.buffers if b.was_written or b.had_atomics]
    kept = [buffer.contents() for buffer in written]
    try:
        return any(_changes(trials, written, kept, load, sign) for sign in (1.0, -1.0))
    finally:
        for buffer, contents in zip(written, kept, strict=True):
            buffer.put_back(contents)


def _changes(
    trials: Trials, written: list[Buffer], kept: list[Contents], load: MaskedLoad, sign: float
) -> bool:
    """Whether the kernel writes something else when the masked lanes are infinite."""
    for buffer in written:
        buffer.rewind()
    state = trials.state
    again = LaunchState(state.kernel, state.grid, checked=False, definition=state.definition)
    again.exact_products = state.exact_products
    # what these lanes hold may be a loop's bound
    again.trial, again.budget = (load.place, sign), schedule.budget(state)
    if not schedule.run_again(trials.function, trials.cooked, again, trials.coordinates):
        return False  # nobody can say
    return not all(
        alike(buffer.raw, contents.raw).all()
        for buffer, contents in zip(written, kept, strict=True)
    )


def _note(state: LaunchState, load: MaskedLoad) -> Finding:
    file, line = load.place
    return Finding(
        "note",
        state.kernel,
        file,
        line,
        source_line(file, line),
        (0, 0, 0),
        load.argument,
        None,
        "lanes that the mask of this load leaves out reach what the kernel writes, by a sum, a "
        "maximum or a product; without `other` they are 0 here, and anything on a GPU",
        1,
        advice.MASKED_LANES,
    )
