"""Philox: the same bits on every machine."""

import triton
import triton.language as tl

from tests.corpus.case import Case, Within, out
from tests.corpus.inputs import floats, integers


@triton.jit
def bits(seed, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.randint(seed, i))
    a, b, c, d = tl.randint4x(seed, i)
    tl.store(out_ptr + N + i, a ^ b)
    tl.store(out_ptr + 2 * N + i, c ^ d)
    tl.store(out_ptr + 3 * N + i, tl.randint(seed, i + 12345, n_rounds=6))


@triton.jit
def raw_philox(seed, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N).to(tl.uint32)
    a, b, c, d = tl.philox(seed, i, i * 3, i + 7, i ^ 5)
    j = tl.arange(0, N)
    tl.store(out_ptr + j, a)
    tl.store(out_ptr + N + j, b)
    tl.store(out_ptr + 2 * N + j, c)
    tl.store(out_ptr + 3 * N + j, d)


@triton.jit
def uniform(seed, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.rand(seed, i))
    a, b, c, d = tl.rand4x(seed, i)
    tl.store(out_ptr + N + i, a)
    tl.store(out_ptr + 2 * N + i, b)
    tl.store(out_ptr + 3 * N + i, tl.where(i % 2 == 0, c, d))


@triton.jit
def normal(seed, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.randn(seed, i))
    a, b, c, d = tl.randn4x(seed, i)
    tl.store(out_ptr + N + i, tl.where(i % 2 == 0, a, b))
    tl.store(out_ptr + 2 * N + i, tl.where(i % 2 == 0, c, d))


@triton.jit
def from_bits(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.uint_to_uniform_float(tl.load(x_ptr + i).to(tl.uint32, bitcast=True)))


@triton.jit
def dropout(x_ptr, p, seed, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    keep = tl.rand(seed, i) > p
    tl.store(out_ptr + i, tl.where(keep, tl.load(x_ptr + i), 0.0))


@triton.jit
def large_offsets(seed, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N).to(tl.int64) + 4294967296
    tl.store(out_ptr + tl.arange(0, N), tl.randint(seed, i))


CASES = (
    *(
        Case(f"{kernel.__name__}-{seed}", kernel, (seed, out("uint32", 256)), {"N": 64})
        for kernel in (bits, raw_philox)
        for seed in (0, 42, 2**31 - 1, 2**40 + 7)
    ),
    *(
        Case(f"uniform-{seed}", uniform, (seed, out("float32", 256)), {"N": 64})
        for seed in (0, 1234, 2**40 + 7)
    ),
    Case(
        "normal",
        normal,
        (1234, out("float32", 192)),
        {"N": 64},
        within=Within(
            "log, sqrt, sin and cos of 2 units each, times a radius below 6", atol=2.0**-20
        ),
    ),
    Case("from_bits", from_bits, (integers("int32"), out("float32", 64)), {"N": 64}),
    Case(
        "dropout",
        dropout,
        (floats("float32", special=False), 0.3, 99, out("float32", 64)),
        {"N": 64},
    ),
    Case("large_offsets", large_offsets, (5, out("uint32", 64)), {"N": 64}),
)
