"""Inputs of the corpus: the same bits on every machine, special values first.

Made from integers alone, so that no library's random numbers are part of the golden data.
"""

from __future__ import annotations

import math

import torch

_MASK = (1 << 64) - 1


def _random_bits(n: int, seed: int) -> list[int]:
    """``n`` numbers of 64 bits.

    Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators", SplitMix64.
    """
    out = []
    for i in range(1, n + 1):
        z = (seed * 0x632BE59BD9B4E019 + i * 0x9E3779B97F4A7C15) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        out.append(z ^ (z >> 31))
    return out


def _torch(name: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, name)
    return found


def special_floats(dtype: str) -> list[float]:
    """NaN, infinities, zeros, subnormals, limits, and ties of the next narrower format."""
    limits = torch.finfo(_torch(dtype))
    ties = [1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-23]
    large = [
        65504.0,
        65519.996,
        65520.0,
        448.0,
        464.0,
        480.0,
        57344.0,
        61440.0,
        2.0**31,
        -(2.0**31),
    ]
    return [
        *(math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5),
        *(limits.max, limits.min, limits.tiny, limits.tiny / 2, -limits.tiny / 4),
        *ties,
        *large,
    ]


def floats(dtype: str, n: int = 64, seed: int = 1, *, special: bool = True) -> torch.Tensor:
    """Shape (n,): special values, then random signs and mantissas with exponents -8 to 8."""
    values = special_floats(dtype)[:n] if special else []
    for bits in _random_bits(n - len(values), seed):
        mantissa, exponent = 1 + (bits & 0xFFFFFF) / 2**24, (bits >> 24) % 17 - 8
        values.append((-1) ** (bits >> 63) * mantissa * 2.0**exponent)
    return torch.tensor(values, dtype=torch.float64).to(_torch(dtype))


def uniform(dtype: str, low: float, high: float, n: int = 64, seed: int = 1) -> torch.Tensor:
    """Shape (n,): ``low``, then random values below ``high``."""
    steps = [0, *((bits & 0xFFFFF) for bits in _random_bits(n - 1, seed))]
    values = [low + (high - low) * k / 2**20 for k in steps]
    return torch.tensor(values, dtype=torch.float64).to(_torch(dtype))


def integers(
    dtype: str, n: int = 64, seed: int = 1, *, low: int | None = None, high: int | None = None
) -> torch.Tensor:
    """Shape (n,): the limits, small numbers, then random ones; or all from ``low`` to ``high``."""
    t = _torch(dtype)
    limits = torch.iinfo(t)
    if low is not None and high is not None:
        return _wrapped([low + bits % (high - low + 1) for bits in _random_bits(n, seed)], t)
    values = [limits.max, limits.min, 0, 1, limits.max - 1, limits.min + 1, 2, 3, 7, 100]
    if limits.min < 0:
        values += [-1, -2, -3, -7, -100]
    for bits in _random_bits(n - len(values), seed):
        # half of them small, so that products do not always wrap
        span = 1 << (limits.bits // (1 + bits % 2))
        values.append((bits >> 1) % span + (limits.min if span > limits.max else 0))
    return _wrapped(values[:n], t)


def _wrapped(values: list[int], t: torch.dtype) -> torch.Tensor:
    """Integers modulo 2**64, which torch makes unsigned 64-bit tensors from only in this way."""
    signed = [(v & _MASK) - ((v & (1 << 63)) << 1) for v in values]
    return torch.tensor(signed, dtype=torch.int64).to(t)


def replaced(tensor: torch.Tensor, new: dict[int, int]) -> torch.Tensor:
    """The integers of a tensor, some of them exchanged for others."""
    return _wrapped([new.get(value, value) for value in tensor.tolist()], tensor.dtype)


def numbers(dtype: str, n: int = 64, seed: int = 1) -> torch.Tensor:
    """Shape (n,): floats or integers with special values, booleans, or bit patterns of fp8."""
    if dtype.startswith("float8"):
        return torch.arange(0, 256, 256 // n, dtype=torch.uint8).view(_torch(dtype))
    if dtype == "bool":
        return torch.tensor([bits % 2 == 1 for bits in _random_bits(n, seed)])
    return floats(dtype, n, seed) if _torch(dtype).is_floating_point else integers(dtype, n, seed)


def pairs(dtype: str, n: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors of shape (n * n,): every pair of ``n`` numbers, two in three of them special."""
    x = numbers(dtype, n)
    if x.dtype.is_floating_point:
        limits = torch.finfo(x.dtype)
        special = [math.nan, 0.0, -0.0, math.inf, -2.5, limits.tiny / 2, 1.0, limits.max]
        special += [-math.inf, limits.tiny, -limits.tiny / 4]
        kept = torch.tensor(special[: n - n // 3], dtype=torch.float64).to(x.dtype)
        # the others are random, so that results round
        x = torch.cat([kept, floats(dtype, n // 3, special=False)])
    return x.repeat_interleave(n), x.repeat(n)
