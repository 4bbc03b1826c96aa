"""How many 32-byte sectors one tile access touches: what the memory system must move.

Each program's access counts for itself. How lanes spread over warps does not matter here.
"""

from __future__ import annotations

import functools

import numpy as np

from grader.simulator.boxes import Place
from grader.simulator.dtypes import Array

SECTOR_BYTES = 32


def count_sectors(index: Array, mask: Array | None, itemsize: int, address: int) -> int:
    """Count distinct sectors per program, summed.

    Args:
        index: Shape (programs, ...), element indices.
        mask: Active lanes, of the same shape, or None.
        itemsize: Bytes an element has on the GPU.
        address: Byte address of element 0; only its offset within a sector matters.
    """
    if not index.size:
        return 0
    sector = _slowest_axis_last(index, itemsize, address % SECTOR_BYTES)
    if mask is not None:
        return _count_masked(sector[0], mask, sector[1])
    rows = sector[0].reshape(index.shape[0], -1)
    if (rows[:, 1:] < rows[:, :-1]).any():
        rows = np.sort(rows, axis=1)
    return rows.shape[0] + int(np.count_nonzero(rows[:, 1:] != rows[:, :-1]))


def count_run(first: int, lanes: Array, itemsize: int, address: int) -> int:
    """Count sectors of programs that touch one ascending run of elements, one after the other.

    Args:
        first: Element the first program starts at.
        lanes: Shape (programs,), how many elements each one touches.
        itemsize: Bytes an element has on the GPU.
        address: Byte address of element 0.
    """
    ends = first + np.cumsum(lanes)
    start = (ends - lanes) * itemsize + address % SECTOR_BYTES
    last = ends * itemsize - 1 + address % SECTOR_BYTES
    return int(((last >> 5) - (start >> 5) + 1)[lanes > 0].sum())


def count_place(place: Place, itemsize: int, address: int) -> int:
    """Count sectors of programs that touch one box each, as `count_sectors` does lane by lane."""
    per_sector = SECTOR_BYTES // itemsize
    offset = address % SECTOR_BYTES // itemsize
    lanes, steps = place.shape[1:], place.steps
    if isinstance(place.starts, tuple):
        first, step = place.starts
        first = (first + offset) % per_sector
        return _in_progression(first, step % per_sector, place.shape[0], lanes, steps, itemsize)
    residues = np.bincount((place.starts + offset) % per_sector).tolist()
    return sum(
        n * _in_box(residue, lanes, steps, itemsize) for residue, n in enumerate(residues) if n
    )


@functools.lru_cache(maxsize=4096)
def _in_progression(
    first: int,
    step: int,
    n_programs: int,
    lanes: tuple[int, ...],
    steps: tuple[int, ...],
    itemsize: int,
) -> int:
    """Boxes that start ``step`` elements apart: what matters repeats after a sector's elements."""
    period = SECTOR_BYTES // itemsize
    total = 0
    for k in range(min(period, n_programs)):
        times = (n_programs - k + period - 1) // period
        total += times * _in_box((first + k * step) % period, lanes, steps, itemsize)
    return total


@functools.lru_cache(maxsize=4096)
def _in_box(first: int, lanes: tuple[int, ...], steps: tuple[int, ...], itemsize: int) -> int:
    """Sectors of one box whose first lane is the ``first`` element of a sector."""
    elements = np.full(1, first, np.int64)
    for n, step in zip(lanes, steps, strict=True):
        elements = np.add.outer(elements, np.arange(n) * step)
    return int(np.unique(elements * itemsize // SECTOR_BYTES).size)


def _slowest_axis_last(index: Array, itemsize: int, offset: int) -> tuple[Array, list[int]]:
    """Sectors, with the axis along which addresses grow slowest innermost (mostly ascending)."""
    order = list(range(index.ndim))
    if index.ndim > 2:  # noqa: PLR2004  programs and one block axis
        origin = int(index.flat[0])
        step = [1 << 60] * index.ndim
        for axis in range(1, index.ndim):
            if index.shape[axis] > 1:
                at = tuple(int(axis == d) for d in range(index.ndim))
                step[axis] = abs(int(index[at]) - origin)
        order = [0, *sorted(range(1, index.ndim), key=lambda d: -step[d])]
    elements_per_sector_log2 = (SECTOR_BYTES // itemsize).bit_length() - 1
    shifted = index.transpose(order)
    # torch aligns to 64 bytes, so nearly always there is nothing to add
    shifted = shifted + offset // itemsize if offset else shifted
    return shifted >> elements_per_sector_log2, order


def _count_masked(sector: Array, mask: Array, order: list[int]) -> int:
    n_programs = sector.shape[0]
    rows, active = sector, mask.transpose(order)
    if n_programs > 1:
        # programs count apart: give each its own range of sector numbers
        low, high = int(rows.min()), int(rows.max())
        shift = np.arange(n_programs) * (high - low + 1)
        rows = rows + shift.reshape((-1,) + (1,) * (rows.ndim - 1))
    flat = rows[active]
    if not flat.size:
        return 0
    if (flat[1:] < flat[:-1]).any():
        flat = np.sort(flat)
    return 1 + int(np.count_nonzero(flat[1:] != flat[:-1]))
