"""What PTX and the resource table of a compiled kernel say: loads, tensor cores, registers. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TARGET = re.compile(r"^\.target\s+(\w+)", re.MULTILINE)
# ld.global.v4.b32, ld.global.nc.L1::evict_last.b16, ld.acquire.gpu.global.b32
_LOAD = re.compile(r"\bld((?:\.[\w:]+)*\.global(?:\.[\w:]+)*)[\s\t]")
_VECTOR = re.compile(r"\.v(\d+)\b")
_TYPE = re.compile(r"\.[bfsu](\d+)\b")
# cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2;
_COPY = re.compile(r"\bcp\.async\.c[ag]\.shared\S*\s+\[[^\]]*\],\s*\[[^\]]*\],\s*(0x[\da-f]+|\d+)")
_BULK_COPY = re.compile(r"\bcp\.async\.bulk\.(?:tensor\S*\.)?\S*shared\S*\.global")
_TENSOR_CORES = re.compile(r"\b(?:mma\.sync|wmma\.mma|wgmma\.mma_async|tcgen05\.mma)\b")
# of what the program itself declares in local memory, such as the arguments of a print
_DEPOT = re.compile(r"\.local\s+\.align\s+\d+\s+\.b8\s+__local_depot\d+\[(\d+)\]")
_USAGE = re.compile(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)")


@dataclass(frozen=True)
class Usage:
    """Of one thread: registers, and bytes of local memory (stack included)."""

    registers: int
    local_bytes: int


def target(ptx: str) -> str:
    """The architecture a PTX file is for, such as ``sm_90a``; "" if it does not say."""
    found = _TARGET.search(ptx)
    return found[1] if found else ""


def load_bits(ptx: str) -> frozenset[int]:
    """Widths in bits of one thread's loads from global memory; bulk copies have none."""
    widths = {int(size, 0) * 8 for size in _COPY.findall(ptx)}
    for modifiers in _LOAD.findall(ptx):
        vector, element = _VECTOR.search(modifiers), _TYPE.search(modifiers)
        if element:
            widths.add(int(element[1]) * (int(vector[1]) if vector else 1))
    return frozenset(widths)


def has_bulk_loads(ptx: str) -> bool:
    """Whether the tensor memory accelerator (TMA) loads whole tiles."""
    return _BULK_COPY.search(ptx) is not None


def uses_tensor_cores(ptx: str) -> bool:
    """Whether there is a matrix instruction: mma (sm_80), wgmma (sm_90), tcgen05 (sm_100)."""
    return _TENSOR_CORES.search(ptx) is not None


def declared_local_bytes(ptx: str) -> int:
    """Local memory that the program declares; what is used beyond it is spilled registers."""
    return sum(int(n) for n in _DEPOT.findall(ptx))


def usage(text: str, kernel: str) -> Usage | None:
    """One kernel's line of ``cuobjdump -res-usage``; None if it is not there."""
    for name, registers, stack, local in _USAGE.findall(text):
        if name == kernel:
            return Usage(int(registers), int(stack) + int(local))
    return None
