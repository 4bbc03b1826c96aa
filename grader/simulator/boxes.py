"""Where the active lanes of a tile access lie, when mask and pointers are simple enough: in boxes.

A mask such as ``offsets < n`` or ``(rows[:, None] < M) & (cols[None, :] < N)`` lets through one box
of lanes in most programs, and a smaller one in the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.simulator.dtypes import Array
from grader.simulator.index import Condition, Index, Shape

# more groups of programs with boxes of different sizes than this, and lanes are looked at one by one
_MAX_BOXES = 8


@dataclass(frozen=True, slots=True)
class Box:
    """The active lanes of some programs.

    Attributes:
        first, last: Rows of the pass: programs ``first <= row < last``.
        low, high: Per axis of the block: lanes ``low <= i < high``.
    """

    first: int
    last: int
    low: Shape
    high: Shape

    @property
    def shape(self) -> Shape:
        """(programs, *lanes)."""
        lanes = [b - a for a, b in zip(self.low, self.high, strict=True)]
        return (self.last - self.first, *lanes)

    @property
    def where(self) -> tuple[slice, ...]:
        """What to index an array of the access's shape with."""
        lanes = [slice(a, b) for a, b in zip(self.low, self.high, strict=True)]
        return (slice(self.first, self.last), *lanes)


def cut(shape: Shape, mask: Condition | None) -> list[Box] | None:
    """The boxes that a mask lets through, in order of programs; None if they are none.

    Args:
        shape: (programs or 1, *block) of the access.
        mask: Of a shape that broadcasts to it, of the same rank.
    """
    if mask is None:
        return [Box(0, shape[0], (0,) * (len(shape) - 1), shape[1:])]
    if shape not in mask.boxes:
        mask.boxes[shape] = _cut(shape, mask)
    found: list[Box] | None = mask.boxes[shape]
    return found


def _cut(shape: Shape, mask: Condition) -> list[Box] | None:
    # per axis, an integer or one for each program
    low: list[Any] = [0] * (len(shape) - 1)
    high: list[Any] = list(shape[1:])
    for x in mask.negative:
        if x.high < 0:
            continue
        if x.low >= 0:
            return []
        axes = [d for d in range(1, len(shape)) if x.steps[d]]
        if len(axes) > 1:
            return None
        rest = x.per_program()
        if not axes:
            # all lanes of a program or none: as if the first axis had no lanes
            high[0] = np.where(rest < 0, high[0], 0) if isinstance(rest, np.ndarray) else high[0]
            if not isinstance(rest, np.ndarray) and rest >= 0:
                return []
            continue
        (axis,) = axes
        _narrow(low, high, axis - 1, rest, x.steps[axis])
    if all(isinstance(bound, int) for bound in low + high):
        return [] if _is_empty(low, high) else [Box(0, shape[0], tuple(low), tuple(high))]
    return _grouped(shape[0], low, high)


def _narrow(low: list[Any], high: list[Any], axis: int, rest: Any, step: int) -> None:
    """Keep the lanes i of an axis for which ``rest + step * i < 0``."""
    least, most = (min, max) if isinstance(rest, int) else (np.minimum, np.maximum)
    if isinstance(low[axis], np.ndarray) or isinstance(high[axis], np.ndarray):
        least, most = np.minimum, np.maximum
    if step > 0:
        high[axis] = most(least(high[axis], -(rest // step)), 0)
    else:
        low[axis] = most(low[axis], rest // -step + 1)


def _is_empty(low: Any, high: Any) -> bool:
    return any(a >= b for a, b in zip(low, high, strict=True))


def _grouped(n_programs: int, low: list[Any], high: list[Any]) -> list[Box] | None:
    """Neighbouring programs with the same bounds together."""
    bounds: list[Array] = [np.broadcast_to(bound, (n_programs,)) for bound in low + high]
    changes = np.zeros(n_programs - 1, np.bool_)
    for bound in bounds:
        changes |= bound[1:] != bound[:-1]
    starts = [0, *(np.flatnonzero(changes) + 1).tolist()]
    if len(starts) > _MAX_BOXES:
        return None
    boxes = []
    for first, last in zip(starts, [*starts[1:], n_programs], strict=True):
        here = [int(bound[first]) for bound in bounds]
        lows, highs = here[: len(low)], here[len(low) :]
        if not _is_empty(lows, highs):
            boxes.append(Box(first, last, tuple(lows), tuple(highs)))
    return boxes


@dataclass(frozen=True, slots=True)
class Place:
    """The elements of a buffer that one box of a tile access touches.

    Attributes:
        starts: Element of each program's first lane: a progression (first, step), or an array.
        steps: Elements from one lane to the next, per axis of the block.
        shape: (programs, *lanes).
    """

    starts: tuple[int, int] | Array
    steps: Shape
    shape: Shape
    low: int
    high: int

    def target(self, elements: Array, memory: Array) -> tuple[Array, Any]:
        """What to read and assign: ``array[index]`` are these elements.

        Args:
            elements: Shape (elements of the buffer,): the buffer, or anything kept per element.
            memory: The same as bytes.
        """
        size = elements.itemsize
        steps = [step * size for step in self.steps]
        if isinstance(self.starts, tuple):
            first, step = self.starts
            strides = (step * size, *steps)
            view = np.ndarray(self.shape, elements.dtype, memory, first * size, strides)
            return view, ...
        # the block at every possible start, overlapping
        first = int(self.starts.min())
        n = int(self.starts.max()) - first + 1
        shape, strides = (n, *self.shape[1:]), (size, *steps)
        return np.ndarray(shape, elements.dtype, memory, first * size, strides), self.starts - first

    def is_injective(self) -> bool:
        """Whether no two lanes touch the same element, as far as is seen at once.

        Where programs start at no regular distance, two lanes of one program.
        """
        first = self.starts[1] if isinstance(self.starts, tuple) else 0
        extent = 0
        shape = self.shape if isinstance(self.starts, tuple) else (1, *self.shape[1:])
        axes = zip((first, *self.steps), shape, strict=True)
        for step, n in sorted((abs(step), n) for step, n in axes if n > 1):
            if step <= extent:
                return False
            extent += step * (n - 1)
        return True


def place(pointer: Index, box: Box) -> Place:
    """The elements of a box."""
    offset, steps = pointer.offset, pointer.steps[1:]
    low = high = 0
    for step, a, b in zip(steps, box.low, box.high, strict=True):
        offset += step * a
        if step > 0:
            high += step * (b - 1 - a)
        else:
            low += step * (b - 1 - a)
    shape = box.shape
    if pointer.column is None:
        step = pointer.steps[0]
        first = offset + step * box.first
        last = first + step * (shape[0] - 1)
        ends = (first, last) if first <= last else (last, first)
        return Place((first, step), steps, shape, ends[0] + low, ends[1] + high)
    starts = pointer.column[box.first : box.last] + offset
    if pointer.steps[0]:
        starts = starts + pointer.steps[0] * np.arange(box.first, box.last)
    return Place(starts, steps, shape, int(starts.min()) + low, int(starts.max()) + high)
