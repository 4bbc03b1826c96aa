"""Reductions and scans: of rows, columns and whole blocks, built in and with a function of one's own."""

import triton
import triton.language as tl

from tests.corpus.case import Case, Within, out
from tests.corpus.inputs import floats, integers, numbers

NUMBERS = ("int8", "int32", "int64", "uint8", "uint32", "float16", "bfloat16", "float32", "float64")


@triton.jit
def sums(x_ptr, rows_ptr, columns_ptr, total_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    tl.store(rows_ptr + m, tl.sum(x, axis=1))
    tl.store(columns_ptr + n, tl.sum(x, 0))
    tl.store(total_ptr, tl.sum(x))


@triton.jit
def extremes(x_ptr, rows_ptr, columns_ptr, total_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    tl.store(rows_ptr + m, tl.max(x, axis=1))
    tl.store(rows_ptr + M + m, tl.min(x, axis=1))
    tl.store(columns_ptr + n, tl.max(x, 0))
    tl.store(columns_ptr + N + n, tl.min(x, 0))
    tl.store(total_ptr, tl.max(x))
    tl.store(total_ptr + 1, tl.min(x))


@triton.jit
def positions(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    tl.store(out_ptr + m, tl.argmax(x, axis=1))
    tl.store(out_ptr + M + m, tl.argmin(x, axis=1))
    tl.store(out_ptr + 2 * M + n, tl.argmax(x, axis=0))
    tl.store(out_ptr + 2 * M + N + n, tl.argmin(x, axis=0))


@triton.jit
def values_and_positions(x_ptr, values_ptr, positions_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    value, position = tl.max(x, axis=1, return_indices=True)
    tl.store(values_ptr + m, value)
    tl.store(positions_ptr + m, position)
    value, position = tl.min(x, axis=1, return_indices=True, keep_dims=True)
    tl.store(values_ptr + M + m[:, None], value)
    tl.store(positions_ptr + M + m[:, None], position)


@triton.jit
def kept_axes(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    at = m[:, None] * N + n[None, :]
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, x - tl.max(x, axis=1, keep_dims=True))
    tl.store(out_ptr + M * N + at, x - tl.sum(x, axis=0, keep_dims=True))
    tl.store(out_ptr + 2 * M * N + at, x + tl.min(x, keep_dims=True))
    tl.store(out_ptr + 3 * M * N + at, x * tl.argmax(x, axis=1, keep_dims=True))


@triton.jit
def of_bits(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    tl.store(out_ptr + m, tl.xor_sum(x, axis=1))
    tl.store(out_ptr + M + m, tl.reduce_or(x, axis=1))


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def first_of_largest(a_value, a_index, b_value, b_index):
    keep = (a_value > b_value) | ((a_value == b_value) & (a_index < b_index))
    return tl.where(keep, a_value, b_value), tl.where(keep, a_index, b_index)


@triton.jit
def own_functions(x_ptr, out_ptr, index_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    tl.store(out_ptr + m, tl.reduce(x, 1, multiply))
    index = tl.broadcast_to(n[None, :], (M, N))
    value, where = tl.reduce((x, index), 1, first_of_largest)
    tl.store(out_ptr + M + m, value)
    tl.store(index_ptr + m, where)
    tl.store(
        out_ptr + 2 * M + m[:, None], tl.reduce(x, axis=1, combine_fn=multiply, keep_dims=True)
    )


@triton.jit
def merge_moments(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    delta = mean_b - mean_a
    return mean_a + delta * (n_b / n), m2_a + m2_b + delta * delta * (n_a * n_b / n), n


@triton.jit
def welford(x_ptr, mean_ptr, m2_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    zero, one = tl.zeros((M, N), tl.float32), tl.full((M, N), 1.0, tl.float32)
    mean, m2, _ = tl.reduce((x, zero, one), 1, merge_moments)
    tl.store(mean_ptr + m, mean)
    tl.store(m2_ptr + m, m2)


@triton.jit
def scans(x_ptr, sum_ptr, product_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    at = m[:, None] * N + n[None, :]
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + at, tl.cumsum(x, axis=1))
    tl.store(sum_ptr + M * N + at, tl.cumsum(x, 0, reverse=True))
    tl.store(product_ptr + at, tl.cumprod(x, axis=1))
    tl.store(product_ptr + M * N + at, tl.cumprod(x, 0, reverse=True))


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def decay(a_gate, a_value, b_gate, b_value):
    return a_gate * b_gate, a_value * b_gate + b_value


@triton.jit
def own_scans(x_ptr, gate_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    at = m[:, None] * N + n[None, :]
    x = tl.load(x_ptr + at)
    gate = tl.load(gate_ptr + at)
    tl.store(out_ptr + at, tl.associative_scan(x, 1, larger))
    tl.store(out_ptr + M * N + at, tl.associative_scan(x, 0, larger, reverse=True))
    product, state = tl.associative_scan((gate, x), 1, decay)
    tl.store(out_ptr + 2 * M * N + at, product)
    tl.store(out_ptr + 3 * M * N + at, state)


@triton.jit
def scan_that_does_not_commute(x_ptr, out_ptr, N: tl.constexpr):
    # the last non-zero value so far: a right to left mistake shows
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, tl.associative_scan(x, 0, last_nonzero))
    tl.store(out_ptr + N + i, tl.associative_scan(x, 0, last_nonzero, reverse=True))
    tl.store(out_ptr + 2 * N, tl.reduce(x, 0, last_nonzero))


@triton.jit
def last_nonzero(a, b):
    return tl.where(b != 0, b, a)


def _ties(dtype):
    """Shape (4, 16): few values, so that the largest and smallest occur often."""
    x = integers("int32", 64, 9, low=-2, high=2)
    x = x.abs() if dtype.startswith("u") else x
    return x.to(numbers(dtype, 1).dtype).reshape(4, 16)


def _whole(dtype):
    """Shape (4, 16): whole numbers whose sums are exact in every type."""
    low = 0 if dtype.startswith("u") else -20
    return integers("int32", 64, 3, low=low, high=20).to(numbers(dtype, 1).dtype).reshape(4, 16)


def _signs(dtype):
    """Shape (4, 16): mostly 1 and -1, some 2, so that products are exact."""
    x = integers("int32", 64, 4, low=0, high=5)
    y = x * 0 + 1
    y[x == 0] = 2
    y[(x > 3)] = -1 if not dtype.startswith("u") else 3
    return y.to(numbers(dtype, 1).dtype).reshape(4, 16)


_SUM = {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}
_MAX = {"int8": "int32", "uint8": "int32", "float16": "float32", "bfloat16": "float32"}
_SCAN = {**_SUM, "bfloat16": "float32"}
_PRODUCT = {"bfloat16": "float32"}
SHAPE = {"M": 4, "N": 16}

CASES = (
    *(
        Case(
            f"sums-{t}",
            sums,
            (_whole(t), *(out(_SUM.get(t, t), n) for n in (4, 16, 1))),
            SHAPE,
            wrong_in_interpreter="bfloat16" if t == "bfloat16" else "",
        )
        for t in NUMBERS
    ),
    *(
        Case(
            f"extremes-{t}",
            extremes,
            (numbers(t, 64).reshape(4, 16), *(out(_MAX.get(t, t), n) for n in (8, 32, 2))),
            SHAPE,
            wrong_in_interpreter="NaN",
        )
        for t in NUMBERS
    ),
    *(Case(f"positions-{t}", positions, (_ties(t), out("int32", 40)), SHAPE) for t in NUMBERS),
    *(
        Case(
            f"values_and_positions-{t}",
            values_and_positions,
            (_ties(t), out(_MAX.get(t, t), 8), out("int32", 8)),
            SHAPE,
        )
        for t in ("int32", "float16", "float32")
    ),
    Case("kept_axes", kept_axes, (_whole("float32"), out("float32", 256)), SHAPE),
    *(
        Case(f"of_bits-{t}", of_bits, (numbers(t, 64).reshape(4, 16), out(t, 8)), SHAPE)
        for t in ("int32", "int64", "uint32")
    ),
    *(
        Case(
            f"own_functions-{t}",
            own_functions,
            (_signs(t), out(t, 12), out("int32", 4)),
            SHAPE,
            wrong_in_interpreter="bfloat16" if t == "bfloat16" else "",
        )
        for t in ("int32", "float16", "bfloat16", "float32")
    ),
    Case(
        "welford",
        welford,
        (
            floats("float32", 64, special=False).clamp(-2, 2).reshape(4, 16),
            out("float32", 4),
            out("float32", 4),
        ),
        SHAPE,
        within=Within(
            "16 terms in another order, each within 2**-24 of at most 16 * 4", atol=64 * 2.0**-22
        ),
    ),
    *(
        Case(
            f"scans-{t}",
            scans,
            (_signs(t), out(_SCAN.get(t, t), 128), out(_PRODUCT.get(t, t), 128)),
            SHAPE,
            wrong_in_interpreter="bfloat16" if t == "bfloat16" else "",
        )
        for t in NUMBERS
    ),
    Case(
        "own_scans",
        own_scans,
        (_whole("float32"), _signs("float32") * 0.5, out("float32", 256)),
        SHAPE,
        within=Within("a GPU fuses multiplication and addition", atol=2.0**-16),
    ),
    Case(
        "scan_that_does_not_commute",
        scan_that_does_not_commute,
        (
            integers("int32", 64, 6, low=-9, high=9) * (integers("int32", 64, 7, low=0, high=1)),
            out("int32", 129),
        ),
        {"N": 64},
    ),
)
