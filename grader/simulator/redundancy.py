"""Launches that do their work several times: all programs along an axis of the grid write the same."""

from __future__ import annotations

import numpy as np

from grader.simulator import advice
from grader.simulator.dtypes import Array
from grader.simulator.errors import source_line
from grader.simulator.launch_state import LaunchState, Touch
from grader.simulator.log import Finding
from grader.simulator.races import alike


def repeated_axis(launch: LaunchState, coordinates: Array, written: frozenset[int]) -> int | None:
    """The first axis along which all programs write equal values to the same elements.

    Args:
        launch: A finished one without races, with ``touches``.
        coordinates: Shape (3, programs), the program ids.
        written: Addresses of all buffers that it wrote.
    """
    # what only one program touches is not logged, and not repeated either
    if not written or not written <= launch.touches.keys():
        return None
    writes = [[t for t in launch.touches[b] if t.kind != "read"] for b in written]
    if any(touch.kind == "atomic" for touches in writes for touch in touches):
        return None
    for axis, n in enumerate(launch.grid):
        if n > 1 and all(_repeats(touches, coordinates, axis, n) for touches in writes):
            return axis
    return None


def _repeats(writes: list[Touch], coordinates: Array, axis: int, n: int) -> bool:
    """Whether each element written by a program is written alike by its n peers along the axis."""
    if not writes:
        return False
    element = np.concatenate([t.element for t in writes])
    program = np.concatenate([t.program for t in writes])
    value = np.concatenate([t.values for t in writes])
    others = [coordinates[d].astype(np.int64) for d in range(len(coordinates)) if d != axis]
    team = others[0] * (int(others[1].max()) + 1) + others[1]
    key = np.stack([team[program], element.astype(np.int64), coordinates[axis][program]])
    _, kept = np.unique(key, axis=1, return_index=True)
    # of one element and team, side by side: the values of all peers
    if kept.size % n:
        return False
    teams, elements, peers = (part.reshape(-1, n) for part in key[:, kept])
    values = value[kept].reshape(-1, n)
    same = alike(values, values[:, :1])
    together = (teams == teams[:, :1]) & (elements == elements[:, :1])
    return bool((same & together & (peers == np.arange(n))).all())


def note(launch: LaunchState, axis: int) -> Finding:
    """One sentence on a launch that repeats itself along an axis."""
    n = launch.grid[axis]
    name = min(t.argument.name for ts in launch.touches.values() for t in ts if t.kind == "write")
    return Finding(
        "note",
        launch.kernel,
        *launch.definition,
        source_line(*launch.definition),
        (0, 0, 0),
        name,
        None,
        f"all {n} programs along axis {axis} of the grid {launch.grid} write the same values to the "
        f"same elements: the launch does its work {n} times",
        1,
        advice.redundant(axis),
    )
