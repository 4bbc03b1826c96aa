"""tl.load and tl.store: boxes of memory where they can be, lane by lane where they must."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.simulator import advice, clashes, dtypes, tiles, undefined
from grader.simulator.constants import plain
from grader.simulator.dtypes import Array, dtype, pointer_type
from grader.simulator.errors import refuse
from grader.simulator.lanes import Access
from grader.simulator.values import Value, align, value_of


def load(pointer: Any, mask: Any, other: Any) -> Value:
    """What the active lanes find; ``other`` (or 0) elsewhere.

    Out of bounds, a lane gets what lies in the storage there, and NaN beyond it.
    """
    _check_other(pointer, other)
    tile = tiles.find(pointer, mask)
    found = None if tile is None else tiles.load(tile, other)
    if found is not None:
        return found
    access = Access("load", pointer, mask)
    buffer, t = access.buffer, access.buffer.dtype
    access.count()
    buffer.was_read = True
    if buffer.written is not None:
        check_written(access, buffer.written)
    access.track("read")
    data = t.decode(_gather(buffer.raw, access.index))
    if access.inside is not None:
        beyond = (access.index < 0) | (access.index >= buffer.raw.size)
        data = np.where(beyond, _garbage(t), data)
    if access.mask is not None:
        if plain(other) is None:
            other = undefined.stand_in(access.run, access.argument.name, t, _cut_axes(access.mask))
        fill = value_of(0 if plain(other) is None else other)
        filler = dtypes.convert(fill.data, fill.dtype, t)
        data = np.where(access.mask, data, align(data, filler)[1])
    return Value(data, t)


def _check_other(pointer: Any, other: Any) -> None:
    """Refuse a block that does not fit the pointers; a number fits any."""
    if type(other) is not Value or not other.shape or type(pointer) is not Value:
        return
    fits = len(other.shape) == len(pointer.shape) and all(
        m in {1, n} for m, n in zip(other.shape, pointer.shape, strict=True)
    )
    if not fits:
        refuse(
            f"tl.load: `other` has shape {other.shape}, but the pointer has shape {pointer.shape}; "
            "give it that shape, or one number"
        )


def _cut_axes(mask: Array) -> tuple[int, ...]:
    """Axes of the block along which a mask leaves out lanes of some row."""
    return tuple(
        axis - 1
        for axis in range(1, mask.ndim)
        if (mask != mask.take([0], axis)).any() or not mask.any()
    )


def _gather(raw: Array, index: Array) -> Array:
    if not raw.size:
        return np.zeros(index.shape, raw.dtype)
    return raw.take(index, mode="clip")


def _garbage(t: dtype) -> Any:
    if t.is_floating():
        return np.nan
    return t.compute.type(1 if t.is_bool() else -1 if t.signed else np.iinfo(t.storage).max)


def check_written(access: Access, written: Array) -> None:
    """Report lanes that read what nobody wrote."""
    if access.inside is None and written[access.where].all():
        return
    element, program = access.elements, access.programs
    if access.inside is not None:
        keep = access.flat(access.inside)
        element, program = element[keep], program[keep]
    unwritten = ~written[element]
    if not unwritten.any():
        return
    first = int(np.argmax(unwritten))
    name, index = access.argument.name, access.argument.index(int(element[first]))
    access.run.find(
        "uninitialised_read",
        int(np.searchsorted(access.run.ids, program[first])),
        f"reads {name} at index {index}, which came from torch.empty and nobody wrote",
        advice=advice.UNWRITTEN,
        argument=name,
        index=index,
        count=int(np.count_nonzero(unwritten)) * access.times,
    )


def store(pointer: Any, value: Any, mask: Any) -> None:
    """Write the active lanes; lanes out of bounds write nothing."""
    given = value_of(value)
    if not isinstance(pointer, Value) or not isinstance(pointer.dtype, pointer_type):
        Access("store", pointer, mask)
    t = pointer.dtype.element_ty
    if not isinstance(given.dtype, dtype):
        refuse(f"tl.store writes numbers, not {given.dtype}")
    tile = tiles.find(pointer, mask)
    if tile is not None and tiles.store(tile, given):
        return
    access = Access("store", pointer, mask, dtypes.convert(given.data, given.dtype, t))
    access.drop_outside()
    if not access.count():
        return
    buffer = access.buffer
    buffer.begin_write(access.run.launch)
    new = access.flat(access.values[0]).astype(buffer.raw.dtype, copy=False)
    if access.run.launch.checked:
        if buffer.address in access.run.launch.tracked:
            access.track("write", new)
        elif buffer.writer is not None:
            buffer.note_writer(
                access.run,
                buffer.writer,
                access.where,
                access.programs,
                is_second=access.times > 1,
            )
    buffer.was_written = True
    write(access, new)
    # an ascending run has no element twice
    if access.run.launch.checked and access.span is None:
        clashes.check(access, new, buffer.raw[access.elements])


def write(access: Access, new: Array) -> None:
    """Write the active lanes so that the pass can be undone."""
    buffer, where = access.buffer, access.where
    access.run.save(buffer.raw, where)
    buffer.raw[where] = new
    if buffer.written is not None:
        access.run.save(buffer.written, where)
        buffer.written[where] = True
