"""Loads, stores and addresses: masks, other, hints for the cache, strides, several programs."""

import triton
import triton.language as tl

from tests.corpus.case import Case, out
from tests.corpus.inputs import floats, integers, numbers


@triton.jit
def masked_copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask), mask=mask)


@triton.jit
def other(x_ptr, out_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n, other=1))
    tl.store(out_ptr + N + i, tl.load(x_ptr + i, mask=i < n, other=-float("inf")))
    tl.store(out_ptr + 2 * N + i, tl.load(x_ptr + i, i < n, 0.1))


@triton.jit
def other_integers(x_ptr, out_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0))
    tl.store(out_ptr + N + i, tl.load(x_ptr + i, mask=i < n, other=-1))


@triton.jit
def other_block(x_ptr, y_ptr, out_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n, other=tl.load(y_ptr + i)))


@triton.jit
def cache_hints(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i, cache_modifier=".ca")
    x += tl.load(x_ptr + i, cache_modifier=".cg")
    x += tl.load(x_ptr + i, eviction_policy="evict_last")
    x += tl.load(x_ptr + i, eviction_policy="evict_first")
    x += tl.load(x_ptr + i, cache_modifier=".cv", volatile=True)
    tl.store(out_ptr + i, x, eviction_policy="evict_last")
    tl.store(out_ptr + N + i, x, cache_modifier=".cs")
    tl.store(out_ptr + 2 * N + i, x, cache_modifier=".wb")
    tl.store(out_ptr + 3 * N + i, x, cache_modifier=".wt")
    tl.store(out_ptr + 4 * N + i, x, cache_modifier=".cg")
    tl.store(out_ptr + 5 * N + i, x, eviction_policy="evict_first")


@triton.jit
def scalars(x_ptr, out_ptr, n):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid)
    if pid < n:
        tl.store(out_ptr + pid, x + pid)
    tl.store(out_ptr + 8, x, mask=pid == 3)


@triton.jit
def transposed(x_ptr, out_ptr, row_stride, column_stride, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + rows[:, None] * row_stride + columns[None, :] * column_stride)
    tl.store(out_ptr + columns[:, None] * M + rows[None, :], tl.trans(x))


@triton.jit
def three_axes(out_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(axis=2)
    at = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(out_ptr + at, 100 * z + 10 * y + x)


@triton.jit
def gather_by_index(x_ptr, index_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + tl.load(index_ptr + i)))
    tl.store(out_ptr + N + i, tl.load(x_ptr + tl.load(index_ptr + i).to(tl.int64)))


@triton.jit
def moving_pointers(x_ptr, out_ptr, turns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    pointers = x_ptr + i
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(turns):
        total += tl.load(pointers)
        pointers += BLOCK
    pointers -= BLOCK
    tl.store(out_ptr + i, total - 2 * tl.load(pointers))


@triton.jit
def masks_that_broadcast(x_ptr, out_ptr, m, n, N: tl.constexpr):
    rows, columns = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    at = rows * N + columns
    x = tl.load(x_ptr + at, mask=(rows < m) & (columns < n), other=7.0)
    tl.store(out_ptr + at, x)
    tl.store(out_ptr + N * N + at, x, mask=rows < m)


@triton.jit
def hints_for_the_compiler(x_ptr, out_ptr, stride, N: tl.constexpr):
    tl.assume(stride > 0)
    stride = tl.multiple_of(stride, 16)
    i = tl.max_contiguous(tl.arange(0, N), N)
    i = tl.max_constancy(i, 1)
    x = tl.load(x_ptr + stride + i)
    tl.debug_barrier()
    tl.store(out_ptr + i, x)


X = floats("float32", 64)

CASES = (
    *(
        Case(f"masked_copy-{t}", masked_copy, (numbers(t), out(t, 64), 50), {"BLOCK": 16}, (4,))
        for t in (
            *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64"),
        )
    ),
    *(
        Case(
            f"other-{t}",
            other,
            (floats(t), out(t, 192), 40),
            {"N": 64},
            wrong_in_interpreter="bfloat16" if t == "bfloat16" else "",
        )
        for t in ("float16", "bfloat16", "float32")
    ),
    *(
        Case(f"other_integers-{t}", other_integers, (integers(t), out(t, 128), 40), {"N": 64})
        for t in ("int8", "int32", "int64")
    ),
    Case("other_block", other_block, (X, -X, out("float32", 64), 40), {"N": 64}),
    Case(
        "cache_hints", cache_hints, (integers("int8", 64).float(), out("float32", 384)), {"N": 64}
    ),
    Case("scalars", scalars, (X, out("float32", 16), 5), grid=(8,)),
    Case("transposed", transposed, (X, out("float32", 64), 1, 4), {"M": 4, "N": 16}),
    Case("three_axes", three_axes, (out("int32", 24),), grid=(4, 3, 2)),
    Case(
        "gather_by_index",
        gather_by_index,
        (X, integers("int32", 64, 5, low=0, high=63), out("float32", 128)),
        {"N": 64},
    ),
    Case(
        "moving_pointers",
        moving_pointers,
        (integers("int8", 64).float(), out("float32", 16), 4),
        {"BLOCK": 16},
    ),
    Case("masks_that_broadcast", masks_that_broadcast, (X, out("float32", 128), 5, 3), {"N": 8}),
    Case("hints_for_the_compiler", hints_for_the_compiler, (X, out("float32", 16), 16), {"N": 16}),
)
