"""GELU in its tanh form, with a gradient: one element in, one element out, no neighbours needed.

    gelu(x) = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))

Written with PyTorch's operators this is eight kernels that each read and write the whole tensor;
fused it is one read and one write.

Source: Hendrycks and Gimpel 2016, "Gaussian error linear units", arXiv:1606.08415, section 2.
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

SQRT_2_OVER_PI = math.sqrt(2 / math.pi)


def make_inputs(case: Case, rng: torch.Generator) -> Inputs:
    """Draw ``x``, shape (M, N), from N(0, 2**2), so that both tails occur.

    The variant "large" runs evenly from -10,000 to 10,000 instead, in float16 from -1000 to 1000: in
    PyTorch's own backward 0.044715 x^2 overflows float16 from 1211 on. In the variant "negative" all
    values lie between -4 and 0, where the output has its minimum and the gradient changes sign.
    """
    shape = (case.dims["M"], case.dims["N"])
    x = 2 * torch.randn(shape, generator=rng)
    if case.variant == "large":
        limit = 1e3 if case.dtype == "float16" else 1e4
        x = torch.linspace(-limit, limit, x.numel()).reshape(shape)
    if case.variant == "negative":
        x = -4 * torch.rand(shape, generator=rng)
    if case.dims["M"] * case.dims["N"] == 1:
        # away from 0, where output and gradient could hide in the tolerance
        x = x.abs() + 0.5
    return {"x": x.to(getattr(torch, case.dtype))}


def oracle(x: torch.Tensor) -> torch.Tensor:
    """GELU, tanh form: any float dtype to float64 of the same shape."""
    return functional.gelu(x.double(), approximate="tanh")


def tolerance(case: Case | BenchmarkCase, output: str) -> Tolerance:
    """Largest error of the plain formula, the built-in and the sigmoid form, times 4 or more.

    1 + tanh(a) loses its digits where tanh(a) is near -1: the absolute error there is about |x|/2
    times a rounding of 1 (2**-24, 2**-11, 2**-8), however small the result. Hence atol, and a larger
    one for the gradient, which multiplies by a' up to 5 and by dy up to 4. A constant of 0.0447
    for 0.044715 changes y by up to 8.5e-6, outside the float32 limit. It changes the gradient by up
    to 9.7e-6 |dy|, about that limit: there gradcheck decides.
    """
    if output == "y":
        return {
            "float32": Tolerance(atol=1.5e-6, rtol=2e-6),
            "float16": Tolerance(atol=2.5e-3, rtol=2.5e-3),
            "bfloat16": Tolerance(atol=2e-2, rtol=2e-2),
        }[case.dtype]
    return {
        "float32": Tolerance(atol=2e-5, rtol=1e-5),
        "float16": Tolerance(atol=2.5e-2, rtol=1e-2),
        "bfloat16": Tolerance(atol=1.5e-1, rtol=6e-2),
    }[case.dtype]


def traffic(case: Case, phase: Phase) -> Traffic:
    """Forward: x in, y out. Backward: x and dy in, dx out, with tanh computed again."""
    n = case.dims["M"] * case.dims["N"]
    if phase == "forward":
        return Traffic(read=n, written=n)
    return Traffic(read=3 * n, written=2 * n)


def min_bytes(case: Case | BenchmarkCase, phase: Phase) -> int:
    """Two tensors from x to y, three from x and dy to dx."""
    n = case.dims["M"] * case.dims["N"]
    return {"forward": 2, "backward": 3, "both": 5}[phase] * n * ITEMSIZE[case.dtype]


def flops(case: Case | BenchmarkCase, phase: Phase) -> int:
    """Operators of the formula as written: 9 forward, 19 backward, one for each function call."""
    n = case.dims["M"] * case.dims["N"]
    return {"forward": 9, "backward": 19, "both": 28}[phase] * n


def eager(x: torch.Tensor) -> torch.Tensor:
    """The formula, operator by operator."""
    return 0.5 * x * (1 + torch.tanh(SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)))


def builtin(x: torch.Tensor) -> torch.Tensor:
    """PyTorch's fused GELU."""
    return functional.gelu(x, approximate="tanh")


def _benchmark(m: int, n: int, dtype: Dtype) -> BenchmarkCase:
    return BenchmarkCase(
        dims={"M": m, "N": n},
        dtype=dtype,
        inputs=(InputSpec("x", (m, n), dtype, scale=2.0, requires_grad=True),),
        phases=("forward", "backward", "both"),
    )


CASES = (
    Case({"M": 4, "N": 256}, "float32", why="a whole number of blocks: nothing to mask"),
    Case({"M": 1, "N": 1}, "float32", why="a single element"),
    Case({"M": 7, "N": 131}, "float32", why="917 elements: the only block is partly filled"),
    Case(
        {"M": 33, "N": 257},
        "float32",
        grad_layout="expanded",
        why="y.sum().backward() sends one 1.0 repeated with stride 0, not a full tensor of ones",
    ),
    Case(
        {"M": 300, "N": 781},
        "float32",
        why="234,300 elements in a few hundred blocks: the grid must reach the last one",
    ),
    Case(
        {"M": 2, "N": 70_001},
        "float32",
        why="two very long rows: programs and blocks have nothing to do with rows here",
    ),
    Case(
        {"M": 11, "N": 200},
        "float32",
        variant="negative",
        why="all values negative: 1 + tanh(a) is small there, and the gradient changes sign",
    ),
    Case({"M": 33, "N": 257}, "float16", why="float16 in and out"),
    Case({"M": 33, "N": 257}, "bfloat16", why="bfloat16 in and out"),
    Case(
        {"M": 5, "N": 100},
        "float32",
        layout="strided",
        why="padding between the rows: they are not neighbours in memory",
    ),
    Case(
        {"M": 17, "N": 65},
        "float32",
        layout="transposed",
        why="stored column by column: element (i, j) is not at i * N + j",
    ),
    Case(
        {"M": 9, "N": 77},
        "float32",
        layout="expanded",
        why="one row repeated with stride 0: the storage holds a single row",
    ),
    Case(
        {"M": 3, "N": 333}, "bfloat16", layout="offset", why="x starts in the middle of its storage"
    ),
    Case(
        {"M": 13, "N": 99},
        "float32",
        grad_layout="strided",
        why="the incoming gradient has padding between its rows",
    ),
    Case(
        {"M": 3, "N": 100},
        "float32",
        variant="large",
        why="|x| up to 10,000: exp(2a) overflows, so tanh as (e-1)/(e+1) is inf/inf",
    ),
    Case(
        {"M": 3, "N": 100},
        "float16",
        variant="large",
        why="|x| up to 1000: x^2 does not fit in float16, so the arithmetic must be float32",
    ),
    Case(
        {"M": 5, "N": 12},
        "float32",
        groups=frozenset({"gradcheck"}),
        why="gradient against finite differences in float64: a constant wrong in its fourth"
        " digit shows",
    ),
)

PROBLEM = Problem(
    name="gelu",
    kind="kernel",
    points=8,
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
    benchmark_cases=(_benchmark(16384, 8192, "float32"), _benchmark(32768, 8192, "bfloat16")),
    own_share={"forward": 0.95, "both": 0.9},
)
