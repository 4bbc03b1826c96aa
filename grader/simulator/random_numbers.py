"""tl.rand and its kin: Philox 4x32-10, bit for bit as Triton makes them.

Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"; triton/language/random.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grader.simulator.constants import plain
from grader.simulator.dtypes import Array, float32, uint32
from grader.simulator.values import Value, value_of

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_SMALLEST = 4.6566127342e-10  # maps int32 to [0, 1), as in Triton


def _philox(seed: Any, offset: Any, n_rounds: int) -> list[Array]:
    key = value_of(seed).data.astype(np.uint64)
    k0, k1 = key & _LOW, key >> _HALF
    c0 = value_of(offset).data.astype(np.uint64) & _LOW
    shape = (-1,) + (1,) * (c0.ndim - 1)
    k0, k1 = k0.reshape(shape), k1.reshape(shape)
    c1 = c2 = c3 = np.zeros_like(c0)
    for _ in range(n_rounds):
        a, b = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c2 = (b >> _HALF) ^ c1 ^ k0, (a >> _HALF) ^ c3 ^ k1
        c1, c3 = b & _LOW, a & _LOW
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return [c0, c1, c2, c3]


def randint4x(seed: Any, offset: Any, n_rounds: Any = 10) -> tuple[Value, ...]:
    """Four blocks of random uint32."""
    return tuple(Value(c.astype(np.uint32), uint32) for c in _philox(seed, offset, plain(n_rounds)))


def randint(seed: Any, offset: Any, n_rounds: Any = 10) -> Value:
    """A block of random uint32."""
    return randint4x(seed, offset, n_rounds)[0]


def uint_to_uniform_float(x: Any) -> Value:
    """uint32 to float32 in [0, 1)."""
    bits = value_of(x).data.view(np.int32)
    positive = np.where(bits < 0, -bits - 1, bits).astype(np.float32)
    return Value((positive * np.float32(_SMALLEST)).astype(float32.compute), float32)


def rand4x(seed: Any, offsets: Any, n_rounds: Any = 10) -> tuple[Value, ...]:
    """Four blocks of float32 in [0, 1)."""
    return tuple(uint_to_uniform_float(c) for c in randint4x(seed, offsets, n_rounds))


def rand(seed: Any, offset: Any, n_rounds: Any = 10) -> Value:
    """A block of float32 in [0, 1)."""
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


def randn4x(seed: Any, offset: Any, n_rounds: Any = 10) -> tuple[Value, ...]:
    """Four blocks of normal float32, by Box and Muller."""
    u1, u2, u3, u4 = (u.data for u in rand4x(seed, offset, n_rounds))
    out = []
    for a, b in ((u1, u2), (u3, u4)):
        radius = np.sqrt(-2 * np.log(np.maximum(a, 1e-7)))
        angle = b * np.float32(2 * math.pi)
        out += [radius * np.cos(angle), radius * np.sin(angle)]
    return tuple(Value(x.astype(float32.compute), float32) for x in out)


def randn(seed: Any, offset: Any, n_rounds: Any = 10) -> Value:
    """A block of normal float32."""
    return randn4x(seed, offset, n_rounds)[0]
