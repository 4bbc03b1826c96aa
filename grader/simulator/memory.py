"""Global memory: a buffer is one torch storage seen as one dtype, an argument a window onto it.

Pointers are element indices into the buffer, so an overrun of one argument is never taken for
another, and nothing is ever dereferenced.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from grader.simulator import dtypes, fresh
from grader.simulator.dtypes import FROM_TORCH, Array, dtype
from grader.simulator.launch_state import LaunchState
from grader.simulator.run import Abandoned, Run


@dataclass(frozen=True)
class Contents:
    """A buffer's elements at some moment, which of them were written, and what was done to it."""

    raw: Array
    written: Array | None
    done: tuple[bool, bool, bool]  # read, written, updated atomically


class Buffer:
    """One storage during one launch.

    Attributes:
        raw: Shape (elements,): the storage itself, writable.
        number: Of the storage, among those of the launch.
        dtype: Declared element type; while lifted, ``raw`` is float64 whatever this is.
        written: Per element, whether anybody wrote it yet; None when all of it was.
        others: The same storage seen as other dtypes.
        n_grains: Into how many units an element is cut, so that all dtypes have the same ones.
    """

    def __init__(self, tensor: torch.Tensor, declared: dtype, number: int) -> None:
        storage = tensor.untyped_storage()
        self.number = number
        self.address = storage.data_ptr()
        self.dtype = declared
        self.raw = fresh.elements(storage, FROM_TORCH[tensor.dtype].storage)
        self.memory = self.raw.view(np.uint8)
        self.mark = fresh.mark_of(tensor, storage, self.raw.size)
        self.written = None if self.mark is None else self.mark.written
        self.was_read = self.was_written = self.had_atomics = False
        self.writer: Array | None = None
        self.others: list[Buffer] = []
        self.n_grains = 1
        self._before: tuple[Array, Array | None] | None = None

    def is_tracked(self, current: Run) -> bool:
        """Whether every access is logged, to find races."""
        return self.address in current.launch.tracked

    def begin_write(self, launch: LaunchState) -> None:
        """Before the first write of a launch: keep what is needed to run it again.

        Raises:
            Abandoned: In a trial of a launch that did not write here at first.
        """
        if self._before is None and launch.trial is not None:
            raise Abandoned  # nothing was kept that could be put back
        if self._before is None and launch.checked:
            for buffer in (self, *self.others):
                buffer._keep()  # noqa: SLF001  another of its own kind

    def _keep(self) -> None:
        written = None if self.written is None else self.written.copy()
        self._before = self.raw.copy(), written
        self.writer = np.full(self.raw.size, -1, np.int32)

    def note_writer(
        self, current: Run, writer: Array, where: Any, program: Array, *, is_second: bool = False
    ) -> None:
        """Remember the last writer of each element; a second one puts the buffer under suspicion.

        Args:
            current: The pass.
            writer: ``self.writer``, or a view of it.
            where: What to index it with; ... where no element comes twice.
            program: Who writes, in the shape of ``writer[where]``.
            is_second: Already known.
        """
        current.save(writer, where)
        if self.was_written:
            before = writer[where]
            is_second = is_second or bool(((before >= 0) & (before != program)).any())
        writer[where] = program
        may_repeat = where is not ... and not isinstance(where, slice)
        if is_second or (may_repeat and (writer[where] != program).any()):
            current.launch.suspects.add(self.address)

    def restore(self) -> None:
        """Undo the whole launch."""
        self.rewind()
        self._before = self.writer = None
        self.was_read = self.was_written = self.had_atomics = False

    def rewind(self) -> None:
        """Give it the elements that it had before the launch."""
        if self._before is not None:
            self.raw[:] = self._before[0]
            if self.written is not None and self._before[1] is not None:
                self.written[:] = self._before[1]

    def in_grains(self, values: Array) -> Array:
        """Numbers as they lie in memory, cut into the units of this storage; once for each."""
        if not self.others:
            return values
        unit = np.dtype(f"u{self.raw.itemsize // self.n_grains}")
        cut: Array = np.ascontiguousarray(values).view(unit)
        return cut

    def grains(self, element: Array) -> Array:
        """The units that elements consist of, in their order."""
        if self.n_grains == 1:
            return element
        parts: Array = element[:, None] * self.n_grains + np.arange(self.n_grains)
        return parts.reshape(-1)

    def contents(self) -> Contents:
        """A copy of what it holds now, and what was done to it."""
        done = self.was_read, self.was_written, self.had_atomics
        return Contents(
            self.raw.copy(), None if self.written is None else self.written.copy(), done
        )

    def put_back(self, contents: Contents) -> None:
        """Make it what it was when these contents were copied."""
        self.raw[:] = contents.raw
        self.was_read, self.was_written, self.had_atomics = contents.done
        if self.written is not None and contents.written is not None:
            self.written[:] = contents.written


def join(buffers: Collection[Buffer]) -> frozenset[int]:
    """Let buffers of one storage know each other; the addresses of such storages."""
    by_address: dict[int, list[Buffer]] = {}
    for buffer in buffers:
        by_address.setdefault(buffer.address, []).append(buffer)
    shared = {address: same for address, same in by_address.items() if len(same) > 1}
    for same in shared.values():
        least = min(buffer.raw.itemsize for buffer in same)
        for buffer in same:
            buffer.others = [other for other in same if other is not buffer]
            buffer.n_grains = buffer.raw.itemsize // least
            if any(other.raw.itemsize != buffer.raw.itemsize for other in same):
                # what was written is known by element, of another size
                buffer.written = buffer.mark = None
    return frozenset(shared)


class Argument:
    """One tensor argument of a launch.

    Attributes:
        base, low, high: Element indices into the buffer: of element (0, ...), and the range.
        valid: For a view with holes, the exact elements; None when low..high is exact.
    """

    def __init__(self, name: str, tensor: torch.Tensor, buffer: Buffer) -> None:
        self.name = name
        self.buffer = buffer
        self.shape = tuple(int(n) for n in tensor.shape)
        self.stride = tuple(int(s) for s in tensor.stride())
        self.base = self.low = int(tensor.storage_offset())
        extent = sum((n - 1) * s for n, s in zip(self.shape, self.stride, strict=True)) + 1
        self.high = self.low + (extent if tensor.numel() else 0)
        self.valid: Array | None = None
        if tensor.numel() and not _is_dense(self.shape, self.stride):
            self.valid = _window(buffer.raw.size, self.shape, self.stride, self.base)

    def index(self, element: int) -> tuple[int, ...]:
        """Element of the buffer as an index into the tensor; outside, along the nearest row."""
        rest = element - self.base
        index = [0] * len(self.shape)
        order = sorted(range(len(self.shape)), key=lambda d: -self.stride[d])
        steps = [d for d in order if self.stride[d] > 0]
        for d in steps:
            index[d], rest = divmod(rest, self.stride[d])
        # what overruns a dense row belongs to the next one; what overruns the last row is its tail
        if steps and self.shape[steps[0]] <= index[steps[0]] and len(steps) > 1:
            over = (index[steps[0]] - self.shape[steps[0]] + 1) * self.stride[steps[0]]
            index[steps[0]] = self.shape[steps[0]] - 1
            index[steps[-1]] += over // self.stride[steps[-1]]
        return tuple(index)


def _is_dense(shape: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    want = 1
    for step, n in sorted((s, n) for s, n in zip(stride, shape, strict=True) if n > 1 and s != 0):
        if step != want:
            return False
        want *= n
    return True


@functools.lru_cache(maxsize=8)
def _window(size: int, shape: tuple[int, ...], stride: tuple[int, ...], base: int) -> Array:
    inside = np.zeros(size, np.bool_)
    view = np.lib.stride_tricks.as_strided(inside[base:], shape, stride)
    view[...] = True
    return inside


def declared_type(tensor: torch.Tensor) -> dtype:
    """The element type a kernel is told.

    Raises:
        TypeError: If Triton has no such type.
    """
    if tensor.dtype not in FROM_TORCH:
        raise TypeError(f"Triton has no pointers to {tensor.dtype}")
    if dtypes.is_lifted() and tensor.dtype == torch.float64:
        return FROM_TORCH[getattr(torch, fresh.declared_name(tensor))]
    return FROM_TORCH[tensor.dtype]
