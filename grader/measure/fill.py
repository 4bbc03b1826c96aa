"""Input tensors from a nonce, and a checksum of tensor contents. Judges nothing.

The student's process, the baselines' and the verifier make the same inputs from the same nonce on
the same type of device: every value comes from one ``torch.Generator`` on that device.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import torch

from grader.spec import FLOAT_DTYPES, InputSpec

_MASK = (1 << 64) - 1
# any other stream of the same nonce; the digits are those of pi
_GRAD_STREAM = 0x243F6A8885A308D3
# splitmix64: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators", as
# published by Vigna (https://prng.di.unimi.it/splitmix64.c)
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
# 32 MiB of int64 words: temporaries stay small beside the tensors, launches few (8 a piece)
_PIECE_WORDS = 1 << 22


def make_inputs(specs: Sequence[InputSpec], nonce: int, device: torch.device) -> list[torch.Tensor]:
    """Draw the tensors that ``specs`` describe.

    Args:
        specs: In the order of the arguments.
        nonce: 0 <= nonce < 2**63. Equal nonces give equal bits on one type of device.
        device: Where to draw; CPU and CUDA draw different values.

    Returns:
        Leaves in new storage. Elements between the strides are drawn too.

    Raises:
        ValueError: If a spec has a fill that its dtype cannot hold.
    """
    generator = torch.Generator(device)
    generator.manual_seed(nonce)
    return [_draw(spec, generator) for spec in specs]


def make_grad_outputs(
    outputs: Sequence[tuple[tuple[int, ...], torch.dtype]], nonce: int, device: torch.device
) -> list[torch.Tensor]:
    """Draw one N(0, 1) gradient per output, given as (shape, dtype), contiguous.

    The values are independent of the inputs that the same nonce gives.
    """
    generator = torch.Generator(device)
    generator.manual_seed((nonce ^ _GRAD_STREAM) & (_MASK >> 1))
    return [
        torch.empty(shape, dtype=dtype, device=device).normal_(generator=generator)
        for shape, dtype in outputs
    ]


def content_hash(tensors: Sequence[torch.Tensor]) -> int:
    """Checksum the dtypes, shapes and every bit of the contents, in logical order.

    Strides do not matter, so a contiguous copy has the same checksum. Computed where the tensors
    are, in pieces of 32 MiB; equal on all devices, because integer sums wrap alike in any order.
    It is no cryptographic hash.

    Returns:
        0 <= checksum < 2**64. With words w_i of 8 bytes, a tensor's is
        sum_i mix(w_i + (i + 1) * golden) mod 2**64, where mix is splitmix64's.
    """
    total = 0
    for tensor in tensors:
        head = zlib.crc32(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        total = (total * _MIX_2 + _contents(tensor.detach()) + head * _GOLDEN) & _MASK
    return total


def _draw(spec: InputSpec, generator: torch.Generator) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, spec.dtype)
    stride = _contiguous(spec.shape) if spec.stride is None else spec.stride
    if len(stride) != len(spec.shape):
        raise ValueError(f"input {spec.name}: shape {spec.shape}, but stride {stride}")
    # the whole storage is drawn, so that strides of 0 and padded rows need no case of their own
    last = sum((size - 1) * step for size, step in zip(spec.shape, stride, strict=True))
    n_storage = 0 if 0 in spec.shape else last + 1
    storage = torch.empty(n_storage, dtype=dtype, device=generator.device)
    _fill(storage, spec, generator)
    tensor = storage.as_strided(spec.shape, stride)
    return tensor.requires_grad_() if spec.requires_grad else tensor


def _fill(storage: torch.Tensor, spec: InputSpec, generator: torch.Generator) -> None:
    if spec.dtype in FLOAT_DTYPES:
        if spec.fill == "normal":
            storage.normal_(generator=generator)
        elif spec.fill == "uniform":
            storage.uniform_(generator=generator)
        else:
            storage.random_(0, 10, generator=generator)
        # in place and only when asked for: a benchmark's inputs are hundreds of megabytes
        if spec.scale != 1:
            storage.mul_(spec.scale)
        if spec.shift != 0:
            storage.add_(spec.shift)
        return
    if spec.fill != "integers" or spec.scale != int(spec.scale) or spec.shift != int(spec.shift):
        raise ValueError(
            f"input {spec.name}: {spec.dtype} takes fill 'integers' with whole scale and shift,"
            f" got {spec.fill!r}, {spec.scale}, {spec.shift}"
        )
    storage.random_(0, 2 if spec.dtype == "bool" else 10, generator=generator)
    if spec.dtype != "bool":
        storage.mul_(int(spec.scale)).add_(int(spec.shift))


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    stride: list[int] = []
    step = 1
    for size in reversed(shape):
        stride.insert(0, step)
        step *= size
    return tuple(stride)


def _contents(tensor: torch.Tensor) -> int:
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    first = 1
    for words in _words(tensor):
        total += _mixed(words, first).sum()
        first += words.numel()
    return int(total.item()) & _MASK


def _words(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the contents in logical order as int64 pieces; only the last is padded, with zeros."""
    for slab in _contiguous_slabs(tensor):
        # a piece starts at a multiple of 8 elements, so at a whole word
        n_piece = _PIECE_WORDS * 8 // slab.element_size()
        for start in range(0, slab.numel(), n_piece):
            raw = slab[start : start + n_piece].view(torch.uint8)
            if raw.numel() % 8 == 0 and raw.storage_offset() % 8 == 0:
                yield raw.view(torch.int64)
            else:
                padded = raw.new_zeros(-(-raw.numel() // 8) * 8)
                padded[: raw.numel()] = raw
                yield padded.view(torch.int64)


def _contiguous_slabs(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the contents flat; a tensor that is not contiguous a few rows at a time."""
    if tensor.numel() == 0:
        return
    if tensor.is_contiguous():
        yield tensor.reshape(-1)
        return
    n_row_bytes = tensor.numel() // tensor.shape[0] * tensor.element_size()
    # a multiple of 8 rows is a whole number of words
    n_rows = max(8, _PIECE_WORDS * 8 // n_row_bytes // 8 * 8)
    for start in range(0, tensor.shape[0], n_rows):
        yield tensor[start : start + n_rows].contiguous().reshape(-1)


def _mixed(words: torch.Tensor, first: int) -> torch.Tensor:
    """Mix each word with its place: splitmix64's finaliser, in one new tensor and one scratch."""
    mixed = torch.arange(first, first + words.numel(), dtype=torch.int64, device=words.device).mul_(
        _signed(_GOLDEN)
    )
    mixed += words
    for shift, factor in ((30, _MIX_1), (27, _MIX_2)):
        mixed ^= _shifted(mixed, shift)
        mixed *= _signed(factor)
    mixed ^= _shifted(mixed, 31)
    return mixed


def _shifted(words: torch.Tensor, by: int) -> torch.Tensor:
    # torch shifts int64 arithmetically; the mask makes it logical
    return (words >> by).bitwise_and_((1 << (64 - by)) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
