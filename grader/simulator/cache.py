"""A model of a GPU's L2 cache: what of a launch's traffic has to come from and go to DRAM.

Lines of 128 bytes, filled by 32-byte sectors, the least recently used line leaves first; written
lines go back to DRAM when they leave, and at the end. Programs start in the order of their ids, a
fixed number is in flight, and those take turns, one tile access each. A launch finds the cache
empty. It models no L1 cache, no associativity and no time: it shows what an order of programs does
to traffic, not what a GPU would report.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from grader.simulator.counts import SECTOR_BYTES
from grader.simulator.dtypes import Array

LINE_BYTES = 128
_SECTORS_LOG2 = 2  # a line holds 4 sectors
_ALL_SECTORS = 15
_ADDRESS_BITS = 48  # of a byte within its buffer
_N_BITS = [n.bit_count() for n in range(_ALL_SECTORS + 1)]


@dataclass(frozen=True)
class Cache:
    """How large the cache is, in bytes, and how many programs run at once.

    The defaults stand to matrices of 512 x 512 as an L2 of 40 MB stands to those of 8192 x 8192:
    an operand is several times what fits.
    """

    size_bytes: int = 128 << 10
    in_flight: int = 8


@dataclass(frozen=True)
class TileAccess:
    """One tile access of several programs.

    Attributes:
        programs: Serial ids, shape (rows,).
        starts: Shape (rows + 1,): where each row's lines begin; (2,) if all programs share one.
        lines: 128-byte lines, ascending within a row.
        sectors: Per line, which of its 4 sectors, as bits.
    """

    argument: str
    reads: bool
    writes: bool
    programs: Array
    starts: Array
    lines: Array
    sectors: Array


def tile_access(
    argument: str,
    kind: str,
    programs: Array,
    index: Array,
    active: Array | None,
    itemsize: int,
    buffer: int,
) -> TileAccess:
    """The lines that a tile access touches.

    Args:
        argument: Its name.
        kind: "load", "store", or an atomic, which does both.
        programs: Serial ids of the programs.
        index: Shape (programs or 1, ...), element indices.
        active: Lanes that take part, of the same shape, or None for all.
        itemsize: Bytes an element has on the GPU.
        buffer: Number of the buffer; buffers share no line.
    """
    rows = index.shape[0]
    row = np.broadcast_to(np.arange(rows).reshape((-1,) + (1,) * (index.ndim - 1)), index.shape)
    element, of = (
        (index.reshape(-1), row.reshape(-1)) if active is None else (index[active], row[active])
    )
    sector = element * itemsize // SECTOR_BYTES
    span = int(sector.max(initial=0)) + 1
    touched = np.unique(of * span + sector)
    of, sector = touched // span, touched % span
    line = sector >> _SECTORS_LOG2
    begins = np.flatnonzero(np.r_[True, (line[1:] != line[:-1]) | (of[1:] != of[:-1])][: line.size])
    bits = (1 << (sector & (LINE_BYTES // SECTOR_BYTES - 1))).astype(np.uint8)
    merged = np.bitwise_or.reduceat(bits, begins) if begins.size else bits
    return TileAccess(
        argument,
        kind != "store",
        kind != "load",
        programs,
        np.searchsorted(of[begins], np.arange(rows + 1)),
        line[begins] + (buffer << _ADDRESS_BITS),
        merged,
    )


def dram_bytes(accesses: Sequence[TileAccess], cache: Cache) -> dict[str, tuple[int, int]]:
    """Bytes read from and written to DRAM for each argument.

    Args:
        accesses: Of a whole launch; those of one program in its own order.
        cache: Size, and programs in flight.
    """
    names = sorted({access.argument for access in accesses})
    number = {name: i for i, name in enumerate(names)}
    read, written = [0] * len(names), [0] * len(names)
    # per line: valid sectors in bits 0-3, dirty ones in bits 4-7, above them who wrote it last
    resident: OrderedDict[int, int] = OrderedDict()
    room = max(1, cache.size_bytes // LINE_BYTES)
    for access, row in _interleaved(accesses, cache.in_flight):
        argument = number[access.argument]
        begin, end = int(access.starts[row]), int(access.starts[row + 1])
        for line, wanted in zip(
            access.lines[begin:end].tolist(), access.sectors[begin:end].tolist(), strict=True
        ):
            state = resident.get(line)
            if state is None:
                state = 0
                if len(resident) >= room:
                    _, left = resident.popitem(last=False)
                    written[left >> 8] += _N_BITS[left >> 4 & _ALL_SECTORS]
            else:
                resident.move_to_end(line)
            if access.reads:
                read[argument] += _N_BITS[wanted & ~state]
            if access.writes:
                state = state & 0xFF | wanted << 4 | argument << 8
            resident[line] = state | wanted
    for state in resident.values():
        written[state >> 8] += _N_BITS[state >> 4 & _ALL_SECTORS]
    return {name: (read[i] * SECTOR_BYTES, written[i] * SECTOR_BYTES) for name, i in number.items()}


def _interleaved(
    accesses: Sequence[TileAccess], in_flight: int
) -> Iterator[tuple[TileAccess, int]]:
    """Each access with the row of one program, in the order in which the cache sees them."""
    of_program: dict[int, list[tuple[TileAccess, int]]] = {}
    for access in accesses:
        shared = access.starts.size - 1 == 1
        for row, program in enumerate(access.programs.tolist()):
            of_program.setdefault(program, []).append((access, 0 if shared else row))
    waiting = deque(iter(of_program[program]) for program in sorted(of_program))
    running: deque[Iterator[tuple[TileAccess, int]]] = deque()
    while waiting or running:
        while waiting and len(running) < in_flight:
            running.append(waiting.popleft())
        for _ in range(len(running)):
            turn = running.popleft()
            step = next(turn, None)
            if step is not None:
                yield step
                running.append(turn)
            elif waiting:
                # a program that ends makes room at once
                running.append(waiting.popleft())
