"""tl.load and tl.store of tiles that are a few boxes of memory, as strided views.

Nearly all accesses of nearly all kernels are. What is not (gathers, modulo, lanes out of bounds,
buffers under suspicion of a race) goes lane by lane, in access.py.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.simulator import boxes, counts, dtypes, index, run, undefined
from grader.simulator.boxes import Box, Place
from grader.simulator.constants import plain
from grader.simulator.dtypes import Array, dtype
from grader.simulator.index import Condition, Shape
from grader.simulator.memory import Argument, Buffer
from grader.simulator.run import Run
from grader.simulator.values import Value, align, index_of, value_of


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile access of all programs of the pass; every lane in a box is active and in bounds.

    Attributes:
        shape: (programs or 1, *block).
    """

    run: Run
    argument: Argument
    shape: tuple[int, ...]
    parts: list[tuple[Box, Place]]

    @property
    def buffer(self) -> Buffer:
        """Where the elements lie."""
        return self.argument.buffer

    @property
    def is_whole(self) -> bool:
        """Whether all lanes are active."""
        return len(self.parts) == 1 and self.parts[0][1].shape == self.shape

    def cut_axes(self) -> tuple[int, ...]:
        """Axes of the block along which the mask leaves out lanes."""
        if not self.parts:
            return tuple(range(len(self.shape) - 1))
        wholes = enumerate(self.shape[1:], 1)
        return tuple(d - 1 for d, n in wholes if any(p.shape[d] < n for _, p in self.parts))

    def count(self, *, write: bool) -> None:
        """Count this access's traffic."""
        if not self.run.launch.checked:
            return
        buffer = self.buffer
        size = buffer.dtype.itemsize
        times = self.run.n if self.shape[0] == 1 else 1
        n = times * sum(math.prod(place.shape) for _, place in self.parts)
        sectors = times * sum(
            counts.count_place(place, size, buffer.address) for _, place in self.parts
        )
        if write:
            self.run.add_traffic(self.argument.name, 0, n, 0, 0, n * size, 0, sectors)
        else:
            self.run.add_traffic(self.argument.name, n, 0, 0, n * size, 0, sectors, 0)


def find(pointer: Any, mask: Any) -> Tile | None:
    """The boxes of an access; None if it must be looked at lane by lane."""
    if type(pointer) is not Value or pointer.argument is None:
        return None
    formula, current, argument = index_of(pointer), run.current(), pointer.argument
    # the cache model looks at lanes
    is_watched = argument.buffer.is_tracked(current) or current.launch.accesses is not None
    if formula is None or is_watched:
        return None
    cut = _cut(formula.shape, plain(mask))
    if cut is None:
        return None
    shape, lanes = cut
    parts = [(box, boxes.place(formula, box)) for box in lanes]
    inside = all(_is_inside(argument, place) for _, place in parts)
    return Tile(current, argument, shape, parts) if inside else None


def _cut(pointers: Shape, mask: Any) -> tuple[Shape, list[Box]] | None:
    """Shape of the access, and the boxes that the mask lets through."""
    if mask is None or mask is True:
        lanes = boxes.cut(pointers, None)
        return None if lanes is None else (pointers, lanes)
    if type(mask) is not Value or type(mask.formula) is not Condition:
        return None
    condition, rank = mask.formula, len(pointers)
    if len(condition.shape) < rank:
        condition = index.widened(condition, rank)
    shape = tuple(map(max, pointers, condition.shape))
    if len(condition.shape) != rank or shape[1:] != pointers[1:]:
        return None
    if any(m not in {1, n} for m, n in zip(condition.shape[1:], pointers[1:], strict=True)):
        return None  # access.py refuses it, with the reason
    lanes = boxes.cut(shape, condition)
    return None if lanes is None else (shape, lanes)


def _is_inside(argument: Argument, place: Place) -> bool:
    if place.low < argument.low or place.high >= argument.high:
        return False
    return argument.valid is None or _all(argument.valid, place)


def _all(flags: Array, place: Place) -> bool:
    array, where = place.target(flags, flags.view(np.uint8))
    return bool(array[where].all())


def load(tile: Tile, other: Any) -> Value | None:
    """What the lanes find; None if some of it must be looked at lane by lane."""
    buffer, t = tile.buffer, tile.buffer.dtype
    n_bytes = math.prod(tile.shape) * t.compute.itemsize
    if n_bytes > run.BLOCK_BYTES:
        run.check_size(tile.shape[0], n_bytes)
    if buffer.written is not None:
        for _, place in tile.parts:
            if not _all(buffer.written, place):
                return None
    tile.count(write=False)
    buffer.was_read = True
    if tile.is_whole:
        array, where = tile.parts[0][1].target(buffer.raw, buffer.memory)
        found = array[where]
        data = t.decode(found)
        # memory may change, what was loaded may not
        return Value(data.copy() if data is found and where is ... else data, t)
    if plain(other) is None:
        other = undefined.stand_in(tile.run, tile.argument.name, t, tile.cut_axes())
    filler = _filler(plain(other), t)
    if filler.size == 1:
        out = np.empty(tile.shape, t.compute)
        out.fill(filler.reshape(-1)[0])
    else:
        filler, _ = align(filler, np.empty(tile.shape, np.bool_))
        out = np.array(np.broadcast_to(filler, _joint(filler.shape, tile.shape)))
    for box, place in tile.parts:
        array, where = place.target(buffer.raw, buffer.memory)
        out[box.where if out.shape[0] == tile.shape[0] else (slice(None), *box.where[1:])] = (
            t.decode(array[where])
        )
    return Value(out, t)


def _filler(other: Any, t: dtype) -> Array:
    """What the masked lanes get, as an array of the type that ``t`` computes in."""
    if isinstance(other, Value):
        return dtypes.convert(other.data, other.dtype, t)
    # 0.0 and -0.0 are one key
    make = _number_filler.__wrapped__ if other == 0 else _number_filler
    made: Array = make(other, t, t.compute)
    return made


@functools.lru_cache(maxsize=128, typed=True)
def _number_filler(other: Any, t: dtype, compute: Any) -> Array:
    fill = value_of(0 if other is None else other)
    return dtypes.convert(fill.data, fill.dtype, t)


def _joint(filler: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    return (max(filler[0], shape[0]), *shape[1:])


def store(tile: Tile, value: Value) -> bool:
    """Write the lanes; False if that must be done lane by lane."""
    buffer, current, shape = tile.buffer, tile.run, tile.shape
    new = dtypes.convert(value.data, value.dtype, buffer.dtype)
    if shape[0] != current.n or new.shape[0] not in {1, current.n} or new.ndim > len(shape):
        return False
    if new.ndim < len(shape):
        new = new.reshape(new.shape[:1] + (1,) * (len(shape) - new.ndim) + new.shape[1:])
    if any(m not in {1, n} for m, n in zip(new.shape, shape, strict=True)):
        return False
    for _, place in tile.parts:
        if not place.is_injective():
            return False
    tile.count(write=True)
    if not tile.parts:
        return True
    buffer.begin_write(current.launch)
    whole = new.shape == shape
    for box, place in tile.parts:
        if current.launch.checked:
            _note_writer(tile, box, place)
        array, where = place.target(buffer.raw, buffer.memory)
        current.save(array, where)
        part = new[box.where] if whole else np.broadcast_to(new, shape)[box.where]
        array[where] = part
        if buffer.written is not None:
            array, where = place.target(buffer.written, buffer.written.view(np.uint8))
            current.save(array, where)
            array[where] = True
        buffer.was_written = True
    return True


def _note_writer(tile: Tile, box: Box, place: Place) -> None:
    buffer, current = tile.buffer, tile.run
    if buffer.writer is None:
        return
    program = current.ids[box.first : box.last].reshape((-1,) + (1,) * len(place.steps))
    writer, where = place.target(buffer.writer, buffer.writer.view(np.uint8))
    buffer.note_writer(current, writer, where, program)
