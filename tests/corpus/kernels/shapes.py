"""Reshaping, joining, ordering and picking the elements of blocks."""

import triton
import triton.language as tl

from tests.corpus.case import Case, out
from tests.corpus.inputs import floats, integers, numbers


@triton.jit
def reshaped(x_ptr, out_ptr):
    i = tl.arange(0, 64)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, tl.reshape(tl.trans(tl.reshape(x, (4, 16))), (64,)))
    tl.store(out_ptr + 64 + i, x.reshape(2, 4, 8).permute(2, 0, 1).reshape(64))
    tl.store(out_ptr + 128 + i, tl.ravel(tl.permute(x.reshape([2, 4, 8]), (1, 2, 0))))
    tl.store(out_ptr + 192 + i, x.reshape([8, 8]).T.reshape(64))
    tl.store(out_ptr + 256 + i, tl.trans(x.reshape(2, 4, 8), 0, 2, 1).reshape([64]))


@triton.jit
def axes_of_size_one(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    at = i[:, None] * N + i[None, :]
    tl.store(out_ptr + at, tl.expand_dims(x, 0) + tl.expand_dims(x, 1))
    tl.store(out_ptr + N * N + at, tl.broadcast_to(x[None, :], (N, N)))
    tl.store(out_ptr + 2 * N * N + at, x.expand_dims(1).broadcast_to(N, N))
    a, b = tl.broadcast(x[:, None], x[None, :])
    tl.store(out_ptr + 3 * N * N + at, a - b)
    y = tl.expand_dims(x, (0, 2))
    tl.store(out_ptr + 4 * N * N + i, y.reshape(N))
    tl.static_assert(y.shape[0] == 1)
    tl.static_assert(y.shape[1] == N)
    tl.static_assert(len(y.shape) == 3)


@triton.jit
def joined(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    j = tl.arange(0, 2 * N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    both = tl.join(x, y)
    tl.store(out_ptr + j, both.reshape(2 * N))
    tl.store(out_ptr + 2 * N + j, tl.interleave(x, y))
    a, b = tl.split(both)
    tl.store(out_ptr + 4 * N + i, a - b)
    low, high = both.reshape(N // 2, 2, 2).split()
    tl.store(out_ptr + 5 * N + i, (low + high).reshape(N))


@triton.jit
def concatenated(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    both = tl.cat(tl.load(x_ptr + i), tl.load(y_ptr + i), can_reorder=True)
    # the order is the compiler's own, the sum is not
    tl.store(out_ptr, tl.sum(both, 0))
    tl.store(out_ptr + 1, tl.max(both, 0))


@triton.jit
def flipped(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    at = m[:, None] * N + n[None, :]
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.flip(x, 1))
    tl.store(out_ptr + M * N + at, tl.flip(x, 0))
    tl.store(out_ptr + 2 * M * N + at, x.flip(-1))


@triton.jit
def ordered(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    at = m[:, None] * N + n[None, :]
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.sort(x))
    tl.store(out_ptr + M * N + at, tl.sort(x, dim=1, descending=True))


@triton.jit
def largest(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, COUNT: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, COUNT)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    tl.store(out_ptr + m[:, None] * COUNT + k[None, :], tl.topk(x, COUNT))


@triton.jit
def picked(x_ptr, index_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    at = m[:, None] * N + n[None, :]
    x = tl.load(x_ptr + at)
    index = tl.load(index_ptr + at)
    tl.store(out_ptr + at, tl.gather(x, index % N, 1))
    tl.store(out_ptr + M * N + at, x.gather(index % M, axis=0))


@triton.jit
def counted(x_ptr, out_ptr, N: tl.constexpr):
    i, bins = tl.arange(0, N), tl.arange(0, 8)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + bins, tl.histogram(x, 8))
    tl.store(out_ptr + 8 + bins, tl.histogram(x, 8, mask=i % 3 == 0))


@triton.jit
def filled(value, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.full((N,), 0.1, tl.float16))
    tl.store(out_ptr + N + i, tl.full([N], value, dtype=tl.float32))
    tl.store(out_ptr + 2 * N + i, tl.zeros([N], tl.int32))
    tl.store(out_ptr + 3 * N + i, tl.zeros_like(i) + tl.arange(N, 2 * N))


X = floats("float32", 64, special=False)
Y = floats("float32", 64, 2, special=False)
ROWS = {"M": 4, "N": 16}

CASES = (
    Case("reshaped", reshaped, (X, out("float32", 320))),
    Case("axes_of_size_one", axes_of_size_one, (X[:8].clone(), out("float32", 264)), {"N": 8}),
    Case("joined", joined, (X, Y, out("float32", 384)), {"N": 64}),
    Case(
        "concatenated",
        concatenated,
        (integers("int32", 64), integers("int32", 64, 2), out("int32", 2)),
        {"N": 64},
    ),
    *(
        Case(f"flipped-{t}", flipped, (numbers(t, 64), out(t, 192)), ROWS)
        for t in ("int8", "int32", "float16", "float32")
    ),
    *(
        Case(f"ordered-{t}", ordered, (numbers(t, 64), out(t, 128)), ROWS)
        for t in ("int8", "int32", "int64", "uint8", "uint32")
    ),
    *(
        Case(
            f"ordered-{t}",
            ordered,
            (floats(t, 64).nan_to_num(2.0), out(t, 128)),
            ROWS,
            wrong_in_interpreter="bfloat16 as integers" if t == "bfloat16" else "",
        )
        for t in ("float16", "bfloat16", "float32")
    ),
    *(
        Case(
            f"largest-{t}-{k}",
            largest,
            (numbers(t, 64), out("float32" if t == "float16" else t, 4 * k)),
            {**ROWS, "COUNT": k},
        )
        for t in ("int32", "uint32")
        for k in (2, 8, 16)
    ),
    *(
        Case(
            f"largest-{t}-{k}",
            largest,
            (floats(t, 64).nan_to_num(2.0), out(t if k == 16 else "float32", 4 * k)),
            {**ROWS, "COUNT": k},
        )
        for t in ("float16", "float32")
        for k in (2, 8, 16)
    ),
    Case(
        "picked", picked, (X, integers("int32", 64, 5, low=0, high=1000), out("float32", 128)), ROWS
    ),
    Case(
        "counted", counted, (integers("int32", 64, 6, low=0, high=7), out("int32", 16)), {"N": 64}
    ),
    Case(
        "filled",
        filled,
        (0.1, out("float32", 64)),
        {"N": 16},
        wrong_in_interpreter="it keeps float arguments in float64",
    ),
)
