"""RMSNorm with gradients for the input and the weight: a reduction over rows and one over columns.

    y_ij = x_ij r_i w_j      r_i = 1 / sqrt(mean_j x_ij^2 + eps)

The gradient of the weight sums over all rows, so programs that handle different rows all add to it:
with plain loads and stores that is a race.

Source: Zhang and Sennrich 2019, "Root mean square layer normalization", arXiv:1910.07467,
equation 4, with eps under the root as in torch.nn.functional.rms_norm.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from grader.spec import (
    ITEMSIZE,
    BenchmarkCase,
    Case,
    Dtype,
    Inputs,
    InputSpec,
    Phase,
    Problem,
    Tolerance,
    Traffic,
)

EPS = 1e-5
# rows up to this length fit into one block and need to be read only once
ONE_BLOCK = 4096


def make_inputs(case: Case, rng: torch.Generator) -> Inputs:
    """Draw ``x``, shape (M, N), from N(0, 1), and ``weight``, shape (N,), from N(1, 0.5**2).

    Variant "tiny": x is 1000 times smaller, so eps counts. Variant "large": x is 300 times larger,
    so its square does not fit in float16. Variant "small_weight": weight is from N(0, 0.01**2).
    """
    m, n, dtype = case.dims["M"], case.dims["N"], getattr(torch, case.dtype)
    scale = {"tiny": 1e-3, "large": 300.0}.get(case.variant, 1.0)
    x = scale * torch.randn(m, n, generator=rng)
    weight = 1 + 0.5 * torch.randn(n, generator=rng)
    if case.variant == "small_weight":
        weight = (weight - 1) / 50
    return {"x": x.to(dtype), "weight": weight.to(dtype), "eps": case.scalars["eps"]}


def oracle(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm over the last axis: (M, N) and (N,) of any float dtype to (M, N) float64."""
    x = x.double()
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight.double()


def tolerance(case: Case | BenchmarkCase, output: str) -> Tolerance:
    """Largest error of the plain formula and the built-in, times 4 or more.

    y is rounded twice, relative to itself: 10 roundings (2**-11, 2**-8) are allowed, and in float32
    some more for a GPU's approximate root and division; atol is for float16 below 6e-5, which rounds
    in steps of 2**-24. dx subtracts two terms of the size of w r, r = 1 / sqrt(mean x^2 + eps), so
    its error is relative to that. dw sums M terms of size 1, so errors grow with sqrt(M).
    """
    if output == "y":
        rtol = {"float32": 4e-6, "float16": 5e-3, "bfloat16": 4e-2}[case.dtype]
        return Tolerance(atol=1e-6 if case.dtype == "float16" else 1e-7, rtol=rtol)
    rtol = {"float32": 4e-6, "float16": 6e-3, "bfloat16": 5e-2}[case.dtype]
    if output == "grad:weight":
        return Tolerance(atol=rtol * math.sqrt(case.dims["M"]), rtol=rtol)
    variant = case.variant if isinstance(case, Case) else ""
    sizes = {"tiny": 1 / math.sqrt(1e-6 + EPS), "large": 1 / 300, "small_weight": 0.01}
    return Tolerance(atol=2 * rtol * sizes.get(variant, 1.0), rtol=rtol)


def traffic(case: Case, phase: Phase) -> Traffic:
    """One program a row with a partial dw of its own, which is the simple way.

    Forward reads x and, in every row, w; it writes y and r. Backward reads x, dy, w and r and writes
    dx and a partial dw in every row, which a second kernel may read and add up. Rows longer than a
    block are read twice.
    """
    m, n = case.dims["M"], case.dims["N"]
    passes = 1 if n <= ONE_BLOCK else 2
    if phase == "forward":
        return Traffic(read=passes * 2 * m * n, written=m * n + m)
    return Traffic(read=passes * 6 * m * n + m, written=3 * m * n + m + n)


def min_bytes(case: Case | BenchmarkCase, phase: Phase) -> int:
    """Two matrices from x to y, three from x and dy to dx; w and dw are read and written once."""
    m, n = case.dims["M"], case.dims["N"]
    forward, backward = 2 * m * n + n, 3 * m * n + 2 * n
    elements = {"forward": forward, "backward": backward, "both": forward + backward}[phase]
    return elements * ITEMSIZE[case.dtype]


def flops(case: Case | BenchmarkCase, phase: Phase) -> int:
    """Forward square, add, two products; backward six products and four additions."""
    n = case.dims["M"] * case.dims["N"]
    return {"forward": 4, "backward": 10, "both": 14}[phase] * n


def eager(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The formula, operator by operator, in float32 as model code writes it."""
    z = x.float()
    z = z * torch.rsqrt(z.square().mean(dim=-1, keepdim=True) + eps)
    return z.to(x.dtype) * weight


def builtin(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """PyTorch's fused RMSNorm."""
    return functional.rms_norm(x, weight.shape, weight, eps)


def _benchmark(m: int, n: int, dtype: Dtype) -> BenchmarkCase:
    return BenchmarkCase(
        dims={"M": m, "N": n},
        dtype=dtype,
        inputs=(
            InputSpec("x", (m, n), dtype, requires_grad=True),
            InputSpec("weight", (n,), dtype, scale=0.5, shift=1.0, requires_grad=True),
        ),
        scalars={"eps": EPS},
        phases=("forward", "backward", "both"),
    )


CASES = (
    Case(
        {"M": 4, "N": 256},
        "float32",
        scalars={"eps": EPS},
        why="rows that fill a block exactly: nothing to mask",
    ),
    Case(
        {"M": 3, "N": 1},
        "float32",
        scalars={"eps": 0.1},
        why="rows of one element: the gradient of x is eps and nothing else",
    ),
    Case(
        {"M": 63, "N": 781},
        "float32",
        scalars={"eps": EPS},
        why="N is not a power of two: the mean divides by N, not by the block's length",
    ),
    Case(
        {"M": 300, "N": 781},
        "float32",
        scalars={"eps": EPS},
        why="rows for many programs: the weight's gradient needs the part of every one",
    ),
    Case(
        {"M": 63, "N": 781},
        "float16",
        scalars={"eps": EPS},
        why="float16 in and out, float32 between",
    ),
    Case(
        {"M": 17, "N": 333},
        "bfloat16",
        scalars={"eps": EPS},
        why="bfloat16 in and out, float32 between",
    ),
    Case(
        {"M": 300, "N": 40},
        "float32",
        scalars={"eps": EPS},
        why="many rows: every one must count in the gradient of the weight",
    ),
    Case(
        {"M": 2000, "N": 24},
        "float16",
        scalars={"eps": EPS},
        why="the gradient of the weight is a sum of 2000 terms: too many for float16",
    ),
    Case(
        {"M": 1, "N": 500},
        "float32",
        scalars={"eps": EPS},
        why="one row: fewer rows than any program wants",
    ),
    Case(
        {"M": 7, "N": 130},
        "float32",
        scalars={"eps": EPS},
        layout="strided",
        why="padded rows: row i starts at i * x.stride(0), not at i * N",
    ),
    Case(
        {"M": 33, "N": 65},
        "float32",
        scalars={"eps": EPS},
        layout="transposed",
        why="stored column by column: neighbours in a row are not neighbours in memory",
    ),
    Case(
        {"M": 9, "N": 77},
        "float32",
        scalars={"eps": EPS},
        layout="expanded",
        why="one row repeated with stride 0: the storage holds a single row",
    ),
    Case(
        {"M": 5, "N": 200},
        "bfloat16",
        scalars={"eps": EPS},
        layout="offset",
        why="x starts in the middle of its storage",
    ),
    Case(
        {"M": 21, "N": 90},
        "float32",
        scalars={"eps": EPS},
        grad_layout="expanded",
        why="y.sum().backward() sends one 1.0 repeated with stride 0",
    ),
    Case(
        {"M": 13, "N": 99},
        "float32",
        scalars={"eps": EPS},
        grad_layout="strided",
        why="the incoming gradient has padding between its rows",
    ),
    Case(
        {"M": 8, "N": 120},
        "float32",
        scalars={"eps": EPS},
        variant="tiny",
        why="x near 0.001: mean(x^2) is smaller than eps, so where eps stands counts",
    ),
    Case(
        {"M": 8, "N": 120},
        "float16",
        scalars={"eps": EPS},
        variant="large",
        why="x near 300: x^2 overflows float16, so squares need float32",
    ),
    Case(
        {"M": 8, "N": 120},
        "float32",
        scalars={"eps": EPS},
        variant="small_weight",
        why="weights near 0.01 and of both signs: they scale y and the gradient of x, and nothing else",
    ),
    Case(
        {"M": 6, "N": 20_000},
        "float32",
        scalars={"eps": EPS},
        why="rows longer than a block: a bigger block, or a loop over blocks",
    ),
    Case(
        {"M": 5, "N": 11},
        "float32",
        scalars={"eps": EPS},
        groups=frozenset({"gradcheck"}),
        why="gradients against finite differences in float64",
    ),
)

PROBLEM = Problem(
    name="rmsnorm",
    kind="kernel",
    points=12,
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
    benchmark_cases=(_benchmark(32768, 4096, "float32"), _benchmark(65536, 4096, "bfloat16")),
    # summing one partial dw a row may be PyTorch's, a quarter of the traffic
    own_share={"forward": 0.95, "both": 0.6},
)
