"""How many blocks of a kernel fit on one multiprocessor (SM), from what the kernel needs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Resource = Literal["registers", "shared memory", "warps", "blocks"]

WARP_SIZE: Final = 32
MAX_THREADS: Final = 1024  # of one block
REGISTERS_PER_SM: Final = 65536
# a warp gets registers in units of 256, and a block's warps lie in the four parts of an SM
_REGISTER_UNIT: Final = 256
_SM_PARTS: Final = 4
# the system's own share of every block from compute capability 8.0 on, and the unit of allocation
_RESERVED_SHARED_BYTES: Final = 1024
_SHARED_UNIT_BYTES: Final = 128


@dataclass(frozen=True)
class Limits:
    """What one SM holds at most; ``block_shared_bytes`` is what one block may ask for."""

    warps: int
    blocks: int
    shared_bytes: int
    block_shared_bytes: int


@dataclass(frozen=True)
class Occupancy:
    """Resident blocks per SM, resident warps in per cent of the most, and what allows no more."""

    blocks: int
    pct: float
    limited_by: Resource


# by compute capability times ten; CUDA C++ Programming Guide, "Technical Specifications per Compute
# Capability", and its tables of registers and shared memory
LIMITS: Final[dict[int, Limits]] = {
    80: Limits(64, 32, 164 << 10, 163 << 10),  # A100
    86: Limits(48, 16, 100 << 10, 99 << 10),  # RTX 3090, A10
    89: Limits(48, 24, 100 << 10, 99 << 10),  # RTX 4090, L4
    90: Limits(64, 32, 228 << 10, 227 << 10),  # H100, H200
    100: Limits(64, 32, 228 << 10, 227 << 10),  # B200
    120: Limits(48, 24, 100 << 10, 99 << 10),  # RTX 5090
}


def occupancy(limits: Limits, *, n_threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Occupancy by the rule of CUDA's occupancy calculator.

    Anchors, H100: 128 threads of 160 registers without shared memory: 3 blocks, 18.75 %, registers;
    256 threads of 96 registers and 48 KiB: 2 blocks, 25 %, registers.

    Args:
        limits: Of the GPU.
        n_threads: Threads of one block.
        registers: Per thread.
        shared_bytes: That one block asks for, without the system's own.
    """
    warps = -(-n_threads // WARP_SIZE)
    per_warp = _rounded_up(max(registers, 1) * WARP_SIZE, _REGISTER_UNIT)
    warps_by_registers = REGISTERS_PER_SM // per_warp // _SM_PARTS * _SM_PARTS
    shared = _rounded_up(shared_bytes + _RESERVED_SHARED_BYTES, _SHARED_UNIT_BYTES)
    allowed: dict[Resource, int] = {
        "registers": warps_by_registers // warps,
        "shared memory": limits.shared_bytes // shared,
        "warps": limits.warps // warps,
        "blocks": limits.blocks,
    }
    # of equals the first named; a kernel that fills all warps is limited by nothing worse
    order: tuple[Resource, ...] = ("warps", "registers", "shared memory", "blocks")
    limited_by = min(order, key=allowed.__getitem__)
    blocks = allowed[limited_by]
    return Occupancy(blocks, 100.0 * blocks * warps / limits.warps, limited_by)


def _rounded_up(n: int, unit: int) -> int:
    return -(-n // unit) * unit
