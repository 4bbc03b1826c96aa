"""Softmax over the rows of a matrix, with a gradient: the first reduction.

    y_ij = exp(x_ij - max_j x_ij) / sum_j exp(x_ij - max_j x_ij)

Written with PyTorch's operators this reads 5MN elements and writes 3MN; fused it reads MN and
writes MN.

Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax",
arXiv:1805.02867, algorithm 2.
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

# rows up to this length fit into one block and need to be read only once
ONE_BLOCK = 4096


def make_inputs(case: Case, rng: torch.Generator) -> Inputs:
    """Draw ``x``, shape (M, N), from N(0, 1).

    Variant "shifted": even rows lie near +100, where exp overflows float32, odd rows near -100,
    where it vanishes. Variant "negative": all rows lie near -3. Variant "rising": the first half of
    a row lies near -10,000, the second near +10,000. Variant "masked": the first three fifths of a
    row are -inf, and every third element of the rest.
    """
    x = torch.randn(case.dims["M"], case.dims["N"], generator=rng)
    if case.variant == "shifted":
        x[0::2] += 100
        x[1::2] -= 100
    if case.variant == "negative":
        x = -3 - x.abs()
    if case.variant == "rising":
        x[:, : x.shape[1] // 2] -= 1e4
        x[:, x.shape[1] // 2 :] += 1e4
    if case.variant == "masked":
        x[:, : 3 * x.shape[1] // 5] = -float("inf")
        x[:, ::3] = -float("inf")
    return {"x": x.to(getattr(torch, case.dtype))}


def oracle(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis: (M, N) of any float dtype to (M, N) float64."""
    return torch.softmax(x.double(), dim=-1)


def tolerance(case: Case | BenchmarkCase, output: str) -> Tolerance:
    """A relative error that grows with the exponent, and next to no absolute one.

    Results are of the size of 1/N, so a fixed atol would let zeros pass. x - max is at most about 9
    in size; rounding it to the dtype changes exp by 9 * 2**-11 or 9 * 2**-8, times 4 is rtol. float32
    adds a few ulp of a GPU's approximate exp and division. float16 is subnormal below 6e-5 and
    rounds there in steps of 2**-24. The gradient y (dy - sum(y dy)) cancels, so its error is
    relative to y, of size 1/N, rather than to itself.
    """
    n = case.dims["N"]
    if output == "y":
        rtol = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 2e-1}[case.dtype]
        return Tolerance(atol=2.0**-22 if case.dtype == "float16" else 1e-7 / n, rtol=rtol)
    rtol = {"float32": 2e-5, "float16": 3e-2, "bfloat16": 2e-1}[case.dtype]
    return Tolerance(atol=rtol / n, rtol=rtol)


def traffic(case: Case, phase: Phase) -> Traffic:
    """One pass over a row that fits a block, two over a longer one (online softmax).

    Backward reads y and dy and writes dx. 4M on top leaves room for saved row statistics.
    """
    m, n = case.dims["M"], case.dims["N"]
    passes = 1 if n <= ONE_BLOCK else 2
    if phase == "forward":
        return Traffic(read=passes * m * n, written=m * n + 2 * m)
    return Traffic(read=3 * passes * m * n + 4 * m, written=2 * m * n + 4 * m)


def min_bytes(case: Case | BenchmarkCase, phase: Phase) -> int:
    """Two tensors from x to y, three from y and dy to dx."""
    n = case.dims["M"] * case.dims["N"]
    return {"forward": 2, "backward": 3, "both": 5}[phase] * n * ITEMSIZE[case.dtype]


def flops(case: Case | BenchmarkCase, phase: Phase) -> int:
    """Forward max, subtract, exp, sum, divide; backward multiply, sum, subtract, multiply."""
    n = case.dims["M"] * case.dims["N"]
    return {"forward": 5, "backward": 4, "both": 9}[phase] * n


def eager(x: torch.Tensor) -> torch.Tensor:
    """The formula, operator by operator: 5MN read, 3MN written."""
    # the shift changes nothing, so no gradient need flow through the maximum
    x = x - x.detach().max(dim=-1, keepdim=True).values
    numerator = torch.exp(x)
    return numerator / numerator.sum(dim=-1, keepdim=True)


def builtin(x: torch.Tensor) -> torch.Tensor:
    """PyTorch's fused softmax."""
    return torch.softmax(x, dim=-1)


def _benchmark(m: int, n: int, dtype: Dtype) -> BenchmarkCase:
    return BenchmarkCase(
        dims={"M": m, "N": n},
        dtype=dtype,
        inputs=(InputSpec("x", (m, n), dtype, requires_grad=True),),
        phases=("forward", "backward", "both"),
    )


# without backward: there the true gradient is 0, and returning zeros would be right
VALUES_ONLY: frozenset[Group] = frozenset({"forward", "memory"})

CASES = (
    Case({"M": 4, "N": 256}, "float32", why="rows that fill a block exactly: nothing to mask"),
    Case(
        {"M": 3, "N": 1},
        "float32",
        groups=VALUES_ONLY,
        why="a row of one element: its softmax is exactly 1",
    ),
    Case(
        {"M": 63, "N": 781},
        "float32",
        why="N is not a power of two: the block is longer than"
        " the row, and what pads it must not count",
    ),
    Case({"M": 300, "N": 781}, "float32", why="the course notes' matrix: 300 rows, 300 programs"),
    Case({"M": 63, "N": 781}, "float16", why="float16 in and out, float32 between"),
    Case({"M": 17, "N": 333}, "bfloat16", why="bfloat16 in and out, float32 between"),
    Case(
        {"M": 16, "N": 100},
        "float32",
        variant="shifted",
        why="rows near +100 and -100: exp overflows or vanishes unless the maximum is subtracted",
    ),
    Case(
        {"M": 11, "N": 70},
        "float32",
        variant="negative",
        why="all values negative: padding with 0 instead of -inf adds exp(0 - max) to the sum",
    ),
    Case(
        {"M": 7, "N": 130},
        "float32",
        layout="strided",
        why="padded rows: row i starts at i * x.stride(0), not at i * N",
    ),
    Case(
        {"M": 33, "N": 65},
        "float32",
        layout="transposed",
        why="stored column by column: neighbours in a row are not neighbours in memory",
    ),
    Case(
        {"M": 9, "N": 77},
        "float32",
        layout="expanded",
        why="one row repeated with stride 0: the storage holds a single row",
    ),
    Case(
        {"M": 5, "N": 200}, "float16", layout="offset", why="x starts in the middle of its storage"
    ),
    Case(
        {"M": 13, "N": 99},
        "float32",
        grad_layout="strided",
        why="the incoming gradient has padding between its rows",
    ),
    Case(
        {"M": 8, "N": 50},
        "float32",
        grad_layout="expanded",
        groups=VALUES_ONLY,
        why="y.sum().backward() sends one 1.0 repeated with stride 0: a kernel that steps through"
        " it as through a full tensor reads outside",
    ),
    Case({"M": 3, "N": 10_000}, "float32", why="a long row: a bigger block, or a loop over blocks"),
    Case(
        {"M": 2, "N": 70_001},
        "float32",
        why="a row longer than any block: maximum and sum of a part are not those of the row",
    ),
    Case(
        {"M": 3, "N": 20_011},
        "bfloat16",
        why="a long row in bfloat16, its sum in float32, its last block partly filled",
    ),
    Case(
        {"M": 2, "N": 33_000},
        "float32",
        variant="rising",
        why="-10,000, then +10,000: where the maximum grows, the sum so far must shrink with it",
    ),
    Case(
        {"M": 2, "N": 60_000},
        "float32",
        variant="masked",
        why="a long row that starts with -inf, as masked attention has: -inf minus -inf is NaN",
    ),
    Case(
        {"M": 6, "N": 90},
        "float16",
        variant="masked",
        why="elements of -inf get 0, and the others share the 1",
    ),
    Case(
        {"M": 4, "N": 15},
        "float32",
        groups=frozenset({"gradcheck"}),
        why="gradient against finite differences in float64",
    ),
)

PROBLEM = Problem(
    name="softmax",
    kind="kernel",
    points=10,
    cases=CASES,
    make_inputs=make_inputs,
    oracle=oracle,
    tolerance=tolerance,
    min_bytes=min_bytes,
    flops=flops,
    traffic=traffic,
    baselines={"eager": eager, "builtin": builtin},
    differentiable=True,
    # 1.07 GB forward: 0.27 ms at 4 TB/s
    benchmark_cases=(_benchmark(32768, 4096, "float32"), _benchmark(131_072, 2048, "bfloat16")),
    own_share={"forward": 0.95, "both": 0.9},
)
