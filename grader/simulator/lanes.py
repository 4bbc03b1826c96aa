"""One access looked at lane by lane: which elements, in bounds or not, and what it moves."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from grader.simulator import advice, cache, counts, run
from grader.simulator.constants import plain
from grader.simulator.dtypes import Array, pointer_type
from grader.simulator.errors import refuse
from grader.simulator.launch_state import Touch
from grader.simulator.memory import Argument
from grader.simulator.values import Value, align, value_of


class Access:
    """One tile access of all programs of the pass.

    Attributes:
        index, mask: Same shape (programs or 1, *block). ``mask`` None means all lanes.
        inside: Lanes that hit the argument's window; None when all active ones do.
        times: Programs that one row stands for.
    """

    def __init__(self, kind: str, pointer: Any, mask: Any, *values: Array) -> None:
        if not isinstance(pointer, Value) or not isinstance(pointer.dtype, pointer_type):
            what = pointer.dtype if isinstance(pointer, Value) else type(plain(pointer)).__name__
            refuse(f"tl.{kind} takes a pointer (or a block of pointers), not {what}")
        self.kind = kind
        self.run = run.current()
        self.argument: Argument = pointer.argument
        self.buffer = self.argument.buffer
        arrays = [pointer.data, *self._mask(mask), *values]
        # a load may repeat its pointers along the mask; what is stored fits the pointers
        for extra in arrays[1:]:
            if extra.ndim > pointer.data.ndim and (kind != "load" or not pointer.shape):
                refuse(
                    f"tl.{kind}: the mask or value has shape {extra.shape[1:]}, but the pointer "
                    f"has shape {pointer.shape}; make the pointer a block of that shape"
                )
        arrays = align(*arrays)
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        if shape[1:] != pointer.shape and (kind != "load" or not pointer.shape):
            refuse(
                f"tl.{kind}: the mask or value has shape {shape[1:]}, but the pointer has shape "
                f"{pointer.shape}; Triton does not broadcast pointers"
            )
        self.times = self.run.n if shape[0] == 1 else 1
        self.index = _full(arrays[0], shape)
        has_mask = len(arrays) > 1 + len(values)
        self.mask = _full(arrays[1], shape) if has_mask else None
        self.was_masked = has_mask
        if self.mask is not None and self.mask.all():
            self.mask = None
        self.values = [_full(v, shape) for v in arrays[len(arrays) - len(values) :]]
        self.inside = self._check_bounds()

    @staticmethod
    def _mask(mask: Any) -> list[Array]:
        given = plain(mask)
        if given is None or given is True:
            return []
        value = value_of(given)
        if not value.dtype.is_bool():
            refuse(f"a mask holds booleans (int1), not {value.dtype}; write a comparison")
        return [value.data]

    def _check_bounds(self) -> Array | None:
        argument, index = self.argument, self.index
        if not index.size:
            return None
        low, high = int(index.min()), int(index.max())
        if argument.valid is None and low >= argument.low and high < argument.high:
            return None
        inside = (index >= argument.low) & (index < argument.high)
        if argument.valid is not None:
            inside &= argument.valid.take(index, mode="clip")
        outside = ~inside if self.mask is None else ~inside & self.mask
        if not outside.any():
            return None
        self._report_outside(outside)
        return inside

    def _report_outside(self, outside: Array) -> None:
        lane = np.unravel_index(int(np.argmax(outside)), outside.shape)
        element = int(self.index[lane])
        argument = self.argument
        n = int(np.count_nonzero(outside)) * self.times
        mask = "a mask was given, but it lets them through" if self.was_masked else "NO mask"
        where = argument.index(element)
        self.run.find(
            "out_of_bounds",
            int(lane[0]),
            f"{self.kind} outside {argument.name} (shape {argument.shape}, strides "
            f"{argument.stride}) at index {where}, lane {tuple(int(i) for i in lane[1:])}: {mask}",
            advice=advice.out_of_bounds(self.kind, was_masked=self.was_masked),
            argument=argument.name,
            index=where,
            count=n,
        )

    def drop_outside(self) -> None:
        """Leave out lanes out of bounds: nothing is written there."""
        if self.inside is not None:
            self.mask = _both(self.mask, self.inside)
            self.inside = None

    def flat(self, array: Array) -> Array:
        """Entries of the active lanes, in order."""
        return array.reshape(-1) if self.mask is None else array[self.mask]

    @functools.cached_property
    def elements(self) -> Array:
        """Element of each active lane; a row that stands for many programs counts once."""
        return self.flat(self.index)

    @functools.cached_property
    def programs(self) -> Array:
        """Program of each active lane."""
        ids = self.run.ids if self.index.shape[0] > 1 else self.run.ids[:1]
        column = ids.reshape((-1,) + (1,) * (self.index.ndim - 1))
        return self.flat(np.broadcast_to(column, self.index.shape))

    @functools.cached_property
    def span(self) -> slice | None:
        """The active lanes as one run of ascending elements, if that is what they are.

        Most accesses of elementwise and row kernels are, and a slice is many times faster.
        """
        element = self.elements
        if not element.size or element[-1] - element[0] != element.size - 1:
            return None
        if (element[1:] - element[:-1] != 1).any():
            return None
        return slice(int(element[0]), int(element[-1]) + 1)

    @property
    def where(self) -> Array | slice:
        """What to index the buffer with."""
        return self.elements if self.span is None else self.span

    def each_program(self) -> None:
        """Write out a row that stands for all programs."""
        if self.times > 1:
            shape = (self.times, *self.index.shape[1:])
            self.index = np.broadcast_to(self.index, shape)
            self.mask = None if self.mask is None else np.broadcast_to(self.mask, shape)
            self.values = [np.broadcast_to(v, shape) for v in self.values]
            self.times = 1

    @property
    def lanes_each(self) -> Array:
        """Active lanes of each row."""
        rows = self.index.shape[0]
        if self.mask is None:
            return np.full(rows, self.index.size // rows)
        lanes: Array = np.count_nonzero(self.mask.reshape(rows, -1), axis=1)
        return lanes

    def count(self) -> int:
        """Count this access's traffic and return its active lanes."""
        lanes = self.index.size if self.mask is None else int(np.count_nonzero(self.mask))
        if not self.run.launch.checked:
            return lanes * self.times
        if self.run.launch.accesses is not None:
            self._show_to_cache()
        n, size = lanes * self.times, self.buffer.dtype.itemsize
        if self.kind not in {"load", "store"}:
            self.run.add_traffic(self.argument.name, 0, 0, n, 0, 0, 0, 0)
            return n
        if self.span is None:
            sectors = counts.count_sectors(self.index, self.mask, size, self.buffer.address)
        else:
            sectors = counts.count_run(self.span.start, self.lanes_each, size, self.buffer.address)
        sectors *= self.times
        if self.kind == "load":
            self.run.add_traffic(self.argument.name, n, 0, 0, n * size, 0, sectors, 0)
        else:
            self.run.add_traffic(self.argument.name, 0, n, 0, 0, n * size, 0, sectors)
        return n

    def _show_to_cache(self) -> None:
        active = self.mask if self.inside is None else _both(self.mask, self.inside)
        self.run.accesses.append(
            cache.tile_access(
                self.argument.name,
                self.kind,
                self.run.ids,
                self.index,
                active,
                self.buffer.dtype.itemsize,
                self.buffer.number,
            )
        )

    def track(self, kind: str, values: Array | None = None) -> None:
        """Log who touches what, when this buffer is under suspicion of a race."""
        launch = self.run.launch
        if self.buffer.address not in launch.tracked:
            return
        element, program = self.elements, self.programs
        if values is None:
            values = np.zeros(element.size, self.buffer.raw.dtype)
        if self.times > 1:
            program = np.repeat(self.run.ids, element.size)
            element, values = np.tile(element, self.times), np.tile(values, self.times)
        buffer = self.buffer
        touch = Touch(
            kind,
            buffer.grains(element),
            program.repeat(buffer.n_grains) if buffer.n_grains > 1 else program,
            int(self.run.tick(1)[0]),
            buffer.in_grains(values),
            self.argument,
            run.here(),
            buffer.n_grains,
        )
        self.run.touch(self.buffer.address, touch)


def _both(mask: Array | None, inside: Array) -> Array:
    return inside if mask is None else mask & inside


def _full(array: Array, shape: tuple[int, ...]) -> Array:
    return array if array.shape == shape else np.broadcast_to(array, shape)
