"""tl.sort, tl.topk and tl.flip.

The bitonic network of the real tl.sort, step by step: it decides where equal zeros of different sign
and NaNs end up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.simulator.arguments import axis_of, block, flag
from grader.simulator.constants import plain
from grader.simulator.creation import constant
from grader.simulator.dtypes import Array
from grader.simulator.errors import refuse
from grader.simulator.reductions import widened
from grader.simulator.values import Value, member

# the names that kernels know as tl.<name>
LANGUAGE = (
    "sort",
    "topk",
    "flip",
)


@member
def sort(x: Any, dim: Any = None, descending: Any = False) -> Value:
    """Sort along the last axis, which is the only one that tl.sort has."""
    given = block(x, "tl.sort")
    return _sorted(given, given.shape[-1], dim, descending=flag(descending, "descending"))


@member
def topk(x: Any, k: Any, dim: Any = None) -> Value:
    """The ``k`` largest along the last axis, largest first; ``k`` is a power of two."""
    given = block(x, "tl.topk")
    kept, n = constant(k, "k of tl.topk"), given.shape[-1]
    if kept < 1 or kept & (kept - 1) or kept > n:
        refuse(f"tl.topk: k must be a power of 2 up to {n}, not {kept}")
    return _sorted(given, kept, dim, descending=True)


def _sorted(given: Value, kept: int, dim: Any, *, descending: bool) -> Value:
    last, axis = len(given.shape) - 1, plain(dim)
    if axis is not None and (not isinstance(axis, int) or axis != last):
        refuse(f"tl.sort and tl.topk order the last axis ({last}) only, not {axis!r}")
    n = given.shape[-1]
    log_n, log_k = n.bit_length() - 1, kept.bit_length() - 1
    t, data = given.dtype, given.data
    for stage in range(1, log_k + 1):
        data = _merged(data, stage, 2 if stage < log_n else int(descending))
    for stage in range(log_k + 1, log_n + 1):
        # of two runs of k, the larger (smaller) of each pair
        wide = widened(Value(data, t))
        t, pairs = wide.dtype, wide.data.reshape(*data.shape[:-1], -1, 2, kept)
        choose = np.fmax if descending else np.fmin
        data = choose(pairs[..., 0, :], pairs[..., 1, :]).reshape(*data.shape[:-1], -1)
        data = _merged(data, log_k, 2 if stage < log_n else int(descending))
    return Value(data, t)


def _merged(data: Array, stage: int, order: int) -> Array:
    """One bitonic merge of runs of ``2 ** stage``: 0 ascending, 1 descending, 2 in turn."""
    n = data.shape[-1]
    position = np.arange(n)
    downwards = (position >> stage) & 1 if order == 2 else np.full(n, order)  # noqa: PLR2004
    for bit in range(stage - 1, -1, -1):
        other = data[..., position ^ (1 << bit)]
        is_right = (position >> bit) & 1
        data = np.where((data > other) != ((downwards ^ is_right) == 1), other, data)
    return data


@member
def flip(x: Any, dim: Any = None) -> Value:
    """Reverse along an axis."""
    given = block(x, "tl.flip")
    if plain(dim) is None:
        refuse("tl.flip needs the axis: its default fails to compile; write tl.flip(x, dim=-1)")
    return Value(np.flip(given.data, axis_of(given, dim) + 1), given.dtype)
