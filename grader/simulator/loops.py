"""range, tl.range and tl.static_range inside kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from grader.simulator import index as formulas
from grader.simulator.constants import ConstantInt
from grader.simulator.creation import constant
from grader.simulator.dtypes import int32, int64
from grader.simulator.errors import refuse
from grader.simulator.values import Value, formula_value, index_of, value_of

# the names that kernels know as tl.<name>
LANGUAGE = ("static_range",)


# hints to the compiler, which change no result
_OPTIONS = frozenset(
    {
        "num_stages",
        "loop_unroll_factor",
        "disallow_acc_multi_buffer",
        "flatten",
        "warp_specialize",
        "disable_licm",
    }
)


def kernel_range(*bounds: Any, **options: Any) -> Iterator[Any]:
    """range() inside a kernel: programs must agree on the number of turns, not on the start."""
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown or not 1 <= len(bounds) <= 3:  # noqa: PLR2004  start, stop, step
        what = f"the argument {unknown[0]}" if unknown else f"{len(bounds)} bounds"
        refuse(f"range() does not take {what}; it has {', '.join(sorted(_OPTIONS))}")
    return _turns(*bounds)


def _turns(*bounds: Any) -> Iterator[Any]:
    start, stop, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
    parts = [value_of(b) for b in (start, stop, step)]
    for part in parts:
        if not part.dtype.is_int() or part.shape:
            refuse(f"range() takes integers, not {part.dtype} of shape {part.shape}")
    wide = any(p.dtype.primitive_bitwidth > 32 for p in parts)  # noqa: PLR2004  int32
    first, last, by = (p.data.astype(np.int64) for p in parts)
    if (by == 0).any():
        refuse("the step of range() is 0")
    turns = Value(np.maximum(0, -((first - last) // by)), int64).__index__()
    t = int64 if wide else int32
    starts, steps = index_of(Value(first, int64)), index_of(Value(by, int64))
    for k in range(turns):
        turn = (
            None
            if starts is None or steps is None
            else formulas.plus(starts, formulas.times(steps, k))
        )
        if turn is not None and t.lowest <= turn.low and turn.high <= t.highest:
            yield formula_value(turn, t)
        else:
            yield Value((first + by * k).astype(t.storage), t)


def static_range(*bounds: Any) -> Iterator[ConstantInt]:
    """range() unrolled by the compiler: bounds are constants, and so is the index."""
    turns = range(*(constant(b, "a bound of tl.static_range") for b in bounds))
    return map(ConstantInt, turns)
