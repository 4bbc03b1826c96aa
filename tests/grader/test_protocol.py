"""grader.sandbox.protocol: any strided tensor arrives as it was; nothing else gets through."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator

import pytest
import torch

from grader.sandbox.protocol import (
    HEADER_LIMIT_BYTES,
    INLINE_LIMIT_BYTES,
    Channel,
    PeerClosedError,
    ProtocolError,
    open_exchange,
    pack,
)

GOOD = {
    "name": "x",
    "dtype": "float32",
    "storage_dtype": "float32",
    "shape": [2],
    "stride": [1],
    "offset": 0,
    "nbytes": 8,
    "where": "inline",
}


@pytest.fixture
def channels() -> Iterator[tuple[Channel, Channel]]:
    """Two ends of one line."""
    ours, theirs = socket.socketpair()
    exchange = open_exchange()
    a, b = Channel(ours, exchange), Channel(theirs, exchange)
    yield a, b
    theirs.close()
    a.close()


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(torch.arange(6.0).reshape(2, 3), id="contiguous"),
        pytest.param(torch.arange(6.0).reshape(2, 3).T, id="transposed"),
        pytest.param(torch.arange(3.0).expand(4, 3), id="expanded"),
        pytest.param(torch.arange(10)[3:9:2], id="offset-and-step"),
        pytest.param(torch.tensor(True), id="bool-scalar"),
        pytest.param(torch.zeros(0, 3), id="empty"),
        pytest.param(torch.arange(4).to(torch.bfloat16), id="bfloat16"),
        pytest.param(torch.rand(INLINE_LIMIT_BYTES // 4 + 1), id="too-large-for-the-header"),
    ],
)
def test_tensor_arrives_as_it_was(channels: tuple[Channel, Channel], tensor: torch.Tensor) -> None:
    """Values, dtype, strides and offset are those that were sent."""
    a, b = channels

    a.send({"op": "x"}, [pack("t", tensor)], 5)
    got = b.receive(5).tensors["t"].unpack()

    assert torch.equal(got, tensor)
    assert (got.dtype, got.stride(), got.storage_offset()) == (
        tensor.dtype,
        tensor.stride(),
        tensor.storage_offset(),
    )


def test_declared_dtype_travels_beside_the_stored_one(channels: tuple[Channel, Channel]) -> None:
    """A lifted tensor is float64 in memory and float32 by declaration."""
    a, b = channels

    a.send({"op": "x"}, [pack("t", torch.ones(2, dtype=torch.float64), "float32")], 5)
    packed = b.receive(5).tensors["t"]

    assert (packed.header.dtype, packed.header.storage_dtype) == ("float32", "float64")
    assert packed.unpack().dtype == torch.float64


def raw(header: object, body: bytes = b"") -> bytes:
    """A message with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("!II", len(text), len(body)) + text + body


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        pytest.param(raw(b"\x80\x04pickle"), "not JSON", id="pickle"),
        pytest.param(raw([1]), "not an object", id="not-an-object"),
        pytest.param(raw({"tensors": 1}), "not an object", id="no-list"),
        pytest.param(raw(b'{"tensors": [], "x": NaN}'), "not a number", id="nan-in-the-header"),
        pytest.param(raw(b"[" * 5000), "not JSON", id="deeply-nested"),
        pytest.param(raw({"tensors": [GOOD | {"more": 1}]}), "tensor header", id="extra-field"),
        pytest.param(raw({"tensors": [GOOD | {"shape": [-1]}]}), "tensor header", id="negative"),
        pytest.param(raw({"tensors": [GOOD | {"shape": [2.0]}]}), "tensor header", id="float-size"),
        pytest.param(
            raw({"tensors": [GOOD | {"dtype": "object"}]}), "unknown dtype", id="object-dtype"
        ),
        pytest.param(raw({"tensors": [GOOD]}, b"1234"), "4 of 8 bytes", id="too-few-bytes"),
        pytest.param(
            raw({"tensors": [GOOD | {"shape": [3]}]}, b"12345678"), "outside", id="beyond-storage"
        ),
        pytest.param(
            raw({"tensors": [GOOD | {"offset": 1}]}, b"12345678"), "outside", id="offset-beyond"
        ),
        pytest.param(
            raw({"tensors": [GOOD | {"stride": [-1]}]}, b"12345678"),
            "strides",
            id="negative-stride",
        ),
        pytest.param(
            raw({"tensors": [GOOD | {"shape": [1], "stride": [2**70]}]}, b"12345678"),
            "tensor header",
            id="stride-too-large-for-torch",
        ),
        pytest.param(
            raw({"tensors": [GOOD | {"nbytes": 9}]}, b"123456789"), "whole number", id="odd-bytes"
        ),
        pytest.param(raw({"tensors": [GOOD, GOOD]}, b"1" * 16), "named", id="one-name-twice"),
        pytest.param(
            raw({"tensors": [GOOD | {"where": "exchange"}]}), "0 of 8", id="nothing-exchanged"
        ),
        pytest.param(
            raw({"tensors": [GOOD | {"nbytes": 2**40, "where": "exchange"}]}),
            "4 GiB",
            id="terabyte",
        ),
        pytest.param(struct.pack("!II", HEADER_LIMIT_BYTES + 1, 0), "announces", id="long-header"),
        pytest.param(struct.pack("!II", 2, 2**31), "announces", id="long-body"),
    ],
)
def test_malformed_message_is_refused(
    channels: tuple[Channel, Channel], message: bytes, complaint: str
) -> None:
    """Whatever is not exactly a message is a protocol error that says what is wrong."""
    a, b = channels
    a.sock.sendall(message)

    with pytest.raises(ProtocolError, match=complaint):
        b.receive(5)


def test_silence_times_out_and_the_end_is_seen(channels: tuple[Channel, Channel]) -> None:
    """An unfinished message is a timeout, however slowly it trickles; a closed line says so."""
    a, b = channels
    a.sock.sendall(raw({"tensors": []})[:-1])

    with pytest.raises(TimeoutError):
        b.receive(0.05)
    a.sock.shutdown(socket.SHUT_RDWR)
    with pytest.raises(PeerClosedError):
        b.receive(5)


def test_bytes_cannot_change_after_they_came(channels: tuple[Channel, Channel]) -> None:
    """The receiver holds a copy: writing to the exchange file later changes nothing."""
    a, b = channels
    sent = torch.rand(INLINE_LIMIT_BYTES)

    a.send({"op": "x"}, [pack("t", sent)], 5)
    got = b.receive(5).tensors["t"].unpack()
    a.send({"op": "x"}, [pack("t", torch.zeros(INLINE_LIMIT_BYTES))], 5)

    assert torch.equal(got, sent)


def test_overlong_header_is_not_sent(channels: tuple[Channel, Channel]) -> None:
    """The sender notices a header over the limit itself."""
    with pytest.raises(ProtocolError, match="over"):
        channels[0].send({"op": "x" * HEADER_LIMIT_BYTES}, (), 5)
