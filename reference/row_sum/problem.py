"""Sums of the rows of a matrix: a loop inside the program, for rows of any length.

    y_i = sum_j x_ij

Elementwise kernels take one block a program. Here a program walks along its row, block by block, and
keeps what it has in registers: the pattern that matrix products and attention are built on.
"""

from __future__ import annotations

import torch

from grader.spec import (
    ITEMSIZE,
    BenchmarkCase,
    Case,
    Dtype,
    Group,
    Inputs,
    InputSpec,
    Phase,
    Problem,
    Tolerance,
    Traffic,
)

# largest relative error of one rounding to the dtype: half a unit in the last place
ROUNDING = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def make_inputs(case: Case, rng: torch.Generator) -> Inputs:
    """Draw ``x``, shape (M, N), from N(0, 1); the variant "positive" from 0.5 to 1.5."""
    m, n = case.dims["M"], case.dims["N"]
    x = torch.randn(m, n, generator=rng)
    if case.variant == "positive":
        x = 0.5 + torch.rand(m, n, generator=rng)
    if n == 1:
        # away from 0, where it could hide in the tolerance
        x = x.abs() + 0.5
    return {"x": x.to(getattr(torch, case.dtype))}


def oracle(x: torch.Tensor) -> torch.Tensor:
    """Sum over the last axis: (M, N) of any float dtype to (M,) float64."""
    return x.double().sum(dim=-1)


def tolerance(case: Case | BenchmarkCase, output: str) -> Tolerance:
    """One rounding of the sum to the dtype, times 4, and the roundings of float32 on the way.

    Partial sums of n values of N(0, 1) grow to sqrt(n), of positive ones to n. Each rounds by up to
    2**-24 of itself, and a few steps round at that size: up to 6 sqrt(n) 2**-24 was seen, adding
    lanes in pairs or in a row, and 32 is five times that. In float16 each step is wrong by 2**-11.
    """
    n = case.dims["N"]
    is_positive = isinstance(case, Case) and case.variant == "positive"
    size = n if is_positive else n**0.5
    return Tolerance(atol=32 * size * 2.0**-24, rtol=4 * ROUNDING[case.dtype])


def traffic(case: Case, phase: Phase) -> Traffic:
    """Every element read once; partial sums of 512 elements each may be written and read again.

    Few long rows fill a GPU only if several programs share a row. They add up by atomics, which count
    as read and written, or in a second kernel. A short row may be split in two. One more pass over
    the sums sets them to zero, or rounds them to the dtype. Anchors: 137 partial sums of a row of
    70,001 are 0.2 % of it; reading a row of 33 twice is 66, allowed are 36.
    """
    m, n = case.dims["M"], case.dims["N"]
    n_parts = max(2, -(-n // 512))
    return Traffic(read=m * (n + n_parts + 1), written=m * (n_parts + 1))


def min_bytes(case: Case | BenchmarkCase, phase: Phase) -> int:
    """One matrix in, one vector out."""
    m, n = case.dims["M"], case.dims["N"]
    return m * (n + 1) * ITEMSIZE[case.dtype]


def flops(case: Case | BenchmarkCase, phase: Phase) -> int:
    """One addition an element."""
    return case.dims["M"] * case.dims["N"]


def eager(x: torch.Tensor) -> torch.Tensor:
    """PyTorch's own sum, which is also the built-in; 16-bit inputs add up in float32."""
    return x.sum(dim=-1)


def _benchmark(m: int, n: int, dtype: Dtype) -> BenchmarkCase:
    return BenchmarkCase(
        dims={"M": m, "N": n}, dtype=dtype, inputs=(InputSpec("x", (m, n), dtype),)
    )


# there is no gradient to check
GROUPS: frozenset[Group] = frozenset({"forward", "memory"})

CASES = (
    Case({"M": 4, "N": 2048}, "float32", groups=GROUPS, why="whole blocks: nothing to mask"),
    Case({"M": 3, "N": 1}, "float32", groups=GROUPS, why="rows of one element: their own sum"),
    Case(
        {"M": 1, "N": 300},
        "float32",
        groups=GROUPS,
        why="a single row: one program, and most of a block beyond its end",
    ),
    Case(
        {"M": 63, "N": 781},
        "float32",
        groups=GROUPS,
        why="rows shorter than a block: what pads them must not count",
    ),
    Case(
        {"M": 5, "N": 4096 + 1},
        "float32",
        groups=GROUPS,
        why="one element more than whole blocks: the loop needs another turn for it",
    ),
    Case(
        {"M": 3, "N": 70_001},
        "float32",
        groups=GROUPS,
        why="a row longer than any block: only a loop reaches its end",
    ),
    Case(
        {"M": 300, "N": 33},
        "float32",
        groups=GROUPS,
        why="many short rows: each program must find its own row",
    ),
    Case({"M": 17, "N": 5000}, "float16", groups=GROUPS, why="float16 in and out, float32 between"),
    Case(
        {"M": 17, "N": 5000}, "bfloat16", groups=GROUPS, why="bfloat16 in and out, float32 between"
    ),
    Case(
        {"M": 6, "N": 9000},
        "bfloat16",
        groups=GROUPS,
        variant="positive",
        why="a sum near 9,000 of values near 1: bfloat16 has no 257, so there 256 + 1 is 256",
    ),
    Case(
        {"M": 7, "N": 130},
        "float32",
        groups=GROUPS,
        layout="strided",
        why="padded rows: row i starts at i * x.stride(0), not at i * N",
    ),
    Case(
        {"M": 33, "N": 65},
        "float32",
        groups=GROUPS,
        layout="transposed",
        why="stored column by column: neighbours in a row are not neighbours in memory",
    ),
    Case(
        {"M": 9, "N": 1100},
        "float32",
        groups=GROUPS,
        layout="expanded",
        why="one row repeated with stride 0: the storage holds a single row",
    ),
    Case(
        {"M": 5, "N": 2050},
        "float16",
        groups=GROUPS,
        layout="offset",
        why="x starts in the middle of its storage",
    ),
)

PROBLEM = Problem(
    name="row_sum",
    kind="kernel",
    points=4,
    cases=CASES,
    make_inputs=make_inputs,
    oracle=oracle,
    tolerance=tolerance,
    min_bytes=min_bytes,
    flops=flops,
    traffic=traffic,
    baselines={"eager": eager, "builtin": None},
    # 1.07 GB to read: 0.26 ms at 4.2 TB/s. Rows of 64 KB and of 8 KB
    benchmark_cases=(_benchmark(16384, 16384, "float32"), _benchmark(131_072, 4096, "bfloat16")),
    own_share={"forward": 0.95},
)
