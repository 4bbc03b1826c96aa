"""Messages between the verifier and a worker: one request, one reply, nothing is ever unpickled.

A message is a JSON header and the flat bytes of tensor storages. Small storages follow the header;
larger ones lie in a file without a name that the verifier owns. The verifier reads by copying, so a
worker cannot change bytes, or take them away, while they are checked.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from grader.spec import ITEMSIZE

HEADER_LIMIT_BYTES: Final = 64 * 1024
INLINE_LIMIT_BYTES: Final = 1024 * 1024
MESSAGE_LIMIT_BYTES: Final = 4 * 1024**3  # the largest benchmark returns 1.5 GB with its gradients
TRACEBACK_LIMIT_CHARS: Final = 16 * 1024
MAX_AXES: Final = 8
_PREFIX = struct.Struct("!II")  # bytes of header, bytes that follow it
_LARGEST: Final = 2**40  # torch overflows beyond 2**63, also where an axis of 1 hides the stride
_TORCH_DTYPE = {name: getattr(torch, name) for name in ITEMSIZE}


class ProtocolError(Exception):
    """The other side sent something that is not a message, or not the one expected."""


class PeerClosedError(Exception):
    """The other side's end of the channel is closed."""


class TensorHeader(BaseModel):
    """How to see a tensor in the bytes of its storage. Strides and offset are in elements."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Annotated[str, Field(max_length=64)]
    dtype: str
    """As declared; differs from ``storage_dtype`` while precision is lifted."""
    storage_dtype: str
    shape: Annotated[list[Annotated[int, Field(ge=0, le=_LARGEST)]], Field(max_length=MAX_AXES)]
    stride: Annotated[list[Annotated[int, Field(le=_LARGEST)]], Field(max_length=MAX_AXES)]
    offset: Annotated[int, Field(ge=0, le=_LARGEST)]
    nbytes: Annotated[int, Field(ge=0)]
    where: Literal["inline", "exchange"] = "inline"

    def problem(self) -> str:
        """What is wrong with it, or ""."""
        for dtype in (self.dtype, self.storage_dtype):
            if dtype not in ITEMSIZE:
                return f"{self.name}: unknown dtype {dtype!r}"
        if len(self.shape) != len(self.stride) or min(self.stride, default=0) < 0:
            return f"{self.name}: shape {self.shape} does not go with strides {self.stride}"
        if self.nbytes % ITEMSIZE[self.storage_dtype]:
            return f"{self.name}: {self.nbytes} bytes are no whole number of {self.storage_dtype}"
        if 0 in self.shape:
            return ""
        steps = zip(self.shape, self.stride, strict=True)
        last = self.offset + sum((size - 1) * step for size, step in steps)
        if (last + 1) * ITEMSIZE[self.storage_dtype] > self.nbytes:
            return f"{self.name}: element {last} is outside its {self.nbytes} bytes"
        return ""


@dataclass(frozen=True)
class Packed:
    """A tensor on its way: header and the bytes of its storage."""

    header: TensorHeader
    data: memoryview | bytearray

    def unpack(self) -> torch.Tensor:
        """The tensor, over the received bytes. Its dtype is the storage dtype."""
        header = self.header
        dtype = _TORCH_DTYPE[header.storage_dtype]
        if not header.nbytes:
            return torch.empty(header.shape, dtype=dtype)
        if dtype == torch.bool:  # any byte may come, but a bool is 0 or 1
            flat = torch.frombuffer(self.data, dtype=torch.uint8) != 0
        else:
            flat = torch.frombuffer(self.data, dtype=dtype)
        return flat.as_strided(header.shape, header.stride, header.offset)


def pack(name: str, tensor: torch.Tensor, dtype: str | None = None) -> Packed:
    """Pack a CPU tensor with its whole storage; ``dtype`` is the declared one where it differs."""
    storage = torch.Tensor.untyped_storage(tensor)
    storage_dtype = str(tensor.dtype).removeprefix("torch.")
    flat = torch.empty(0, dtype=torch.uint8).set_(storage)
    return Packed(
        TensorHeader(
            name=name,
            dtype=dtype or storage_dtype,
            storage_dtype=storage_dtype,
            shape=list(torch.Tensor.size(tensor)),
            stride=list(torch.Tensor.stride(tensor)),
            offset=int(torch.Tensor.storage_offset(tensor)),
            nbytes=storage.nbytes(),
        ),
        flat.numpy().data,
    )


@dataclass(frozen=True)
class Message:
    """A header without its tensors, and the tensors by name."""

    header: dict[str, Any]
    tensors: dict[str, Packed]


def open_exchange() -> int:
    """File descriptor of an unnamed file for large tensors, inheritable."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("exchange")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.set_inheritable(fd, True)
    return fd


class Channel:
    """One end of the line between the verifier and a worker."""

    def __init__(self, sock: socket.socket, exchange_fd: int) -> None:
        self.sock = sock
        self.exchange_fd = exchange_fd

    def send(
        self,
        header: Mapping[str, Any],
        tensors: Sequence[Packed] = (),
        timeout_s: float | None = None,
    ) -> None:
        """Send one message.

        Raises:
            ProtocolError: If the header is over 64 KiB.
            PeerClosedError: If nobody listens any more.
            TimeoutError: If the other side does not read.
        """
        inline: list[memoryview | bytearray] = []
        room, at, headers = INLINE_LIMIT_BYTES, 0, []
        for packed in tensors:
            where: Literal["inline", "exchange"] = "inline"
            if packed.header.nbytes <= room:
                room -= packed.header.nbytes
                inline.append(packed.data)
            else:
                where = "exchange"
                _write_at(self.exchange_fd, packed.data, at)
                at += packed.header.nbytes
            headers.append({**packed.header.model_dump(), "where": where})
        text = json.dumps({**header, "tensors": headers}, allow_nan=False).encode()
        if len(text) > HEADER_LIMIT_BYTES:
            raise ProtocolError(f"a header of {len(text)} bytes is over {HEADER_LIMIT_BYTES}")
        body = b"".join(inline)
        self.sock.settimeout(timeout_s)
        try:
            self.sock.sendall(_PREFIX.pack(len(text), len(body)) + text + body)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise PeerClosedError from error

    def receive(self, timeout_s: float | None = None) -> Message:
        """The next message, fully copied.

        Raises:
            ProtocolError: If what comes is not a message, or over the limits.
            PeerClosedError: At the end of the stream.
            TimeoutError: If it is not complete in time.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        n_text, n_body = _PREFIX.unpack(self._read(_PREFIX.size, deadline))
        if n_text > HEADER_LIMIT_BYTES or n_body > INLINE_LIMIT_BYTES:
            raise ProtocolError(f"a message announces {n_text} + {n_body} bytes")
        text = self._read(n_text, deadline)
        body = memoryview(self._read(n_body, deadline))
        header, headers = _parse(text)
        if sum(h.nbytes for h in headers) > MESSAGE_LIMIT_BYTES:
            raise ProtocolError("the tensors of one message are over 4 GiB")
        tensors: dict[str, Packed] = {}
        n_inline = at = 0
        for tensor in headers:
            if tensor.where == "inline":
                data = bytearray(body[n_inline : n_inline + tensor.nbytes])
                n_inline += tensor.nbytes
            else:
                data = _read_at(self.exchange_fd, tensor.nbytes, at)
                at += tensor.nbytes
            if len(data) != tensor.nbytes:
                raise ProtocolError(f"{tensor.name}: {len(data)} of {tensor.nbytes} bytes came")
            if tensor.name in tensors:
                raise ProtocolError(f"two tensors are named {tensor.name!r}")
            tensors[tensor.name] = Packed(tensor, data)
        return Message(header, tensors)

    def close(self) -> None:
        """Close both the line and the exchange file."""
        self.sock.close()
        os.close(self.exchange_fd)

    def _read(self, n_bytes: int, deadline: float | None) -> bytearray:
        data = bytearray(n_bytes)
        view, got = memoryview(data), 0
        while got < n_bytes:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                self.sock.settimeout(left)
            else:
                self.sock.settimeout(None)
            try:
                n = self.sock.recv_into(view[got:])
            except ConnectionResetError as error:
                raise PeerClosedError from error
            if n == 0:
                raise PeerClosedError
            got += n
        return data


def _parse(text: bytearray) -> tuple[dict[str, Any], list[TensorHeader]]:
    try:
        header = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the header is not JSON: {error}") from error
    if not isinstance(header, dict) or not isinstance(header.get("tensors"), list):
        raise ProtocolError("the header is not an object with a list of tensors")
    try:
        headers = [TensorHeader.model_validate(tensor) for tensor in header.pop("tensors")]
    except ValidationError as error:
        raise ProtocolError(f"a tensor header is wrong: {error.errors()[0]['msg']}") from error
    for tensor in headers:
        if wrong := tensor.problem():
            raise ProtocolError(wrong)
    return header, headers


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _write_at(fd: int, data: memoryview | bytearray, at: int) -> None:
    view = memoryview(data)
    while view:
        n = os.pwrite(fd, view, at)
        view, at = view[n:], at + n


def _read_at(fd: int, n_bytes: int, at: int) -> bytearray:
    """Up to ``n_bytes``: fewer where the file ends. Never maps it, which a shrink would turn fatal."""
    if n_bytes > os.fstat(fd).st_size - at:
        return bytearray()
    data = bytearray(n_bytes)
    view, got = memoryview(data), 0
    while got < n_bytes:
        n = os.preadv(fd, [view[got:]], at + got)
        if n == 0:
            return data[:got]
        got += n
    return data
