"""tl.rand and its kin: Philox 4x32-10, bit for bit as Triton makes them.

Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"; triton/language/random.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grader.simulator.creation import constant
from grader.simulator.dtypes import Array, float32, uint32
from grader.simulator.errors import UnsupportedError, refuse
from grader.simulator.values import Value, align, value_of

# the names that kernels know as tl.<name>
LANGUAGE = (
    "philox",
    "randint",
    "randint4x",
    "uint_to_uniform_float",
    "rand",
    "rand4x",
    "pair_uniform_to_normal",
    "randn",
    "randn4x",
)

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_SMALLEST = 4.6566127342e-10  # maps int32 to [0, 1), as in Triton


def _rounds(counter: list[Array], k0: Array, k1: Array, n_rounds: int) -> list[Array]:
    c0, c1, c2, c3 = counter
    for _ in range(n_rounds):
        a, b = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c2 = (b >> _HALF) ^ c1 ^ k0, (a >> _HALF) ^ c3 ^ k1
        c1, c3 = b & _LOW, a & _LOW
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return [c0, c1, c2, c3]


def philox(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: Any = 10) -> tuple[Value, ...]:
    """Four blocks of random uint32, from a counter of four 32-bit integers."""
    counter = [value_of(c) for c in (c0, c1, c2, c3)]
    if any(c.dtype.primitive_bitwidth != 32 for c in counter):  # noqa: PLR2004  bits
        raise UnsupportedError("the simulator's tl.philox takes counters of 32 bits")
    words = align(*(c.data.astype(np.uint64) & _LOW for c in counter))
    return _made(seed, words, n_rounds)


def _made(seed: Any, counter: list[Array], n_rounds: Any) -> tuple[Value, ...]:
    if not value_of(seed).dtype.is_int():
        refuse(f"a seed is an integer, not {value_of(seed).dtype}")
    key = value_of(seed).data.astype(np.uint64)
    shape = (-1,) + (1,) * (counter[0].ndim - 1)
    k0, k1 = (key & _LOW).reshape(shape), (key >> _HALF).reshape(shape)
    words = _rounds(counter, k0, k1, constant(n_rounds, "n_rounds"))
    return tuple(Value(c.astype(np.uint32), uint32) for c in words)


def randint4x(seed: Any, offset: Any, n_rounds: Any = 10) -> tuple[Value, ...]:
    """Four blocks of random uint32."""
    at = value_of(offset)
    given = at.data.astype(np.uint64)
    zero = np.zeros_like(given)
    # only 64-bit offsets have a high half; the sign of others is no part of it
    high = given >> _HALF if at.dtype.primitive_bitwidth > 32 else zero  # noqa: PLR2004
    return _made(seed, [given & _LOW, high, zero, zero], n_rounds)


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


def pair_uniform_to_normal(u1: Any, u2: Any) -> tuple[Value, Value]:
    """Two blocks of normal float32 from two uniform ones, by Box and Muller."""
    radius = np.sqrt(-2 * np.log(np.maximum(value_of(u1).data, 1e-7)))
    angle = value_of(u2).data * np.float32(2 * math.pi)
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    return Value(x.astype(float32.compute), float32), Value(y.astype(float32.compute), float32)


def randn4x(seed: Any, offset: Any, n_rounds: Any = 10) -> tuple[Value, ...]:
    """Four blocks of normal float32."""
    u1, u2, u3, u4 = rand4x(seed, offset, n_rounds)
    return (*pair_uniform_to_normal(u1, u2), *pair_uniform_to_normal(u3, u4))


def randn(seed: Any, offset: Any, n_rounds: Any = 10) -> Value:
    """A block of normal float32."""
    return randn4x(seed, offset, n_rounds)[0]
