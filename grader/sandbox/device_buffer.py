"""Memory of one GPU that two processes share: outputs reach the verifier without leaving the device.

The verifier owns the memory and copies out of it before it looks at anything. It is an allocation of
its own, because CUDA shares whole allocations: nothing else of the verifier's is in it. A gigabyte
takes 1 ms this way and about 2 s through the CPU (H200).
"""

from __future__ import annotations

import ctypes
import functools
import re
from dataclasses import dataclass
from pathlib import Path

import torch

_HANDLE_BYTES = 64
_LAZY_PEER_ACCESS = 1
_ALIGNMENT_BYTES = 512


class _Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * _HANDLE_BYTES)]


@dataclass(frozen=True)
class _Memory:
    """What torch needs to see memory that it did not allocate."""

    __cuda_array_interface__: dict[str, object]


class DeviceBuffer:
    """The verifier's end: ``n_bytes`` of device memory, and the handle that lets a worker write."""

    def __init__(self, n_bytes: int) -> None:
        """Allocate.

        Raises:
            OSError: If CUDA refuses, or its runtime cannot be found.
        """
        self.n_bytes = n_bytes
        self._pointer = ctypes.c_void_p()
        _check(_runtime().cudaMalloc(ctypes.byref(self._pointer), ctypes.c_size_t(n_bytes)))
        handle = _Handle()
        code = _runtime().cudaIpcGetMemHandle(ctypes.byref(handle), self._pointer)
        if code:
            self.close()
        _check(code)
        self.handle = bytes(handle).hex()
        self._bytes = _as_bytes(self._pointer.value, n_bytes)

    def read(self, at: int, n_bytes: int) -> torch.Tensor:
        """A copy of some bytes, uint8 on the device."""
        return self._bytes[at : at + n_bytes].clone()

    def close(self) -> None:
        """Free it."""
        if self._pointer.value:
            torch.cuda.synchronize()
            _check(_runtime().cudaFree(self._pointer))
            self._pointer = ctypes.c_void_p()


class Buffers:
    """One buffer for a whole grading, grown as needed; none where CUDA cannot share memory."""

    def __init__(self) -> None:
        self._buffer: DeviceBuffer | None = None
        self._refused = False

    def at_least(self, n_bytes: int) -> DeviceBuffer | None:
        """A buffer of this size or larger, or None: then contents travel through the CPU."""
        if self._buffer is not None and self._buffer.n_bytes >= n_bytes:
            return self._buffer
        self.close()
        if not self._refused:
            try:
                self._buffer = DeviceBuffer(n_bytes)
            except OSError:
                self._refused = True
        return self._buffer

    def close(self) -> None:
        """Free the buffer."""
        if self._buffer is not None:
            self._buffer.close()
            self._buffer = None


def write(handle: str, n_bytes: int, tensors: list[torch.Tensor]) -> list[int]:
    """The worker's end: put contiguous tensors one after another; where each begins.

    Raises:
        OSError: If the memory cannot be opened, or they do not fit.
    """
    buffer = _opened(handle, n_bytes)
    places, at = [], 0
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        if at + size > n_bytes:
            raise OSError(f"{at + size} bytes do not fit into {n_bytes}")
        buffer[at : at + size].copy_(tensor.reshape(-1).view(torch.uint8))
        places.append(at)
        at += -(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    torch.cuda.synchronize()
    return places


def room(sizes: list[int]) -> int:
    """Bytes that ``write`` needs for tensors of these sizes."""
    return sum(-(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES for size in sizes)


@functools.lru_cache(maxsize=4)
def _opened(handle: str, n_bytes: int) -> torch.Tensor:
    pointer = ctypes.c_void_p()
    given = _Handle.from_buffer_copy(bytes.fromhex(handle))
    open_handle = _runtime().cudaIpcOpenMemHandle
    open_handle.argtypes = [ctypes.c_void_p, _Handle, ctypes.c_uint]
    _check(open_handle(ctypes.byref(pointer), given, _LAZY_PEER_ACCESS))
    return _as_bytes(pointer.value, n_bytes)


def _as_bytes(address: int | None, n_bytes: int) -> torch.Tensor:
    interface = {"shape": (n_bytes,), "typestr": "|u1", "data": (address, False), "version": 3}
    return torch.as_tensor(_Memory(interface), device="cuda")


@functools.cache
def _runtime() -> ctypes.CDLL:
    """The CUDA runtime that torch has loaded; another copy would not know its context."""
    torch.cuda.init()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    loaded = re.search(r"\S*/libcudart[^/\s]*\.so[^/\s]*", Path("/proc/self/maps").read_text())
    if loaded is None:
        raise OSError("torch has loaded no CUDA runtime")
    return ctypes.CDLL(loaded[0])


def _check(code: int) -> None:
    if code:
        raise OSError(f"CUDA refuses to share memory: error {code}")
