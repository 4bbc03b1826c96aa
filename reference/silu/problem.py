"""SiLU with a gradient: an exercise of the course notes, and the shortest autograd function there is.

    silu(x) = x s(x)      s(x) = 1 / (1 + exp(-x))

Written with PyTorch's operators this reads the tensor three times and writes it twice; fused it is
one read and one write.

Source: Elfwing, Uchibe and Doya 2017, "Sigmoid-weighted linear units for neural network function
approximation in reinforcement learning", arXiv:1702.03118, equations 8 and 9.
"""

from __future__ import annotations

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


def make_inputs(case: Case, rng: torch.Generator) -> Inputs:
    """Draw ``x``, shape (M, N), from N(0, 2**2), so that both tails occur.

    The variant "large" runs evenly from -10,000 to 10,000 instead; in the variant "negative" all
    values lie between -4 and 0, where the output has its minimum and the gradient changes sign.
    """
    shape = (case.dims["M"], case.dims["N"])
    x = 2 * torch.randn(shape, generator=rng)
    if case.variant == "large":
        x = torch.linspace(-1e4, 1e4, x.numel()).reshape(shape)
    if case.variant == "negative":
        x = -4 * torch.rand(shape, generator=rng)
    if x.numel() == 1:
        # away from 0, where output and gradient could hide in the tolerance
        x = x.abs() + 0.5
    return {"x": x.to(getattr(torch, case.dtype))}


def oracle(x: torch.Tensor) -> torch.Tensor:
    """SiLU: any float dtype to float64 of the same shape."""
    return functional.silu(x.double())


def tolerance(case: Case | BenchmarkCase, output: str) -> Tolerance:
    """Four times the largest error of the plain formula in the dtype, and of a GPU's float32.

    y in float32: exp(-x) has an error of |x| 2**-24 from its argument and of two roundings from the
    instruction, the division two more; the result is then wrong by 1e-6 |y| where |y| matters.
    In 16 bits s and y are rounded once each, 2**-10 or 2**-7 in all. float16 is subnormal below 6e-5
    and rounds s there in steps of 2**-24, which x of up to 17 multiplies.

    The gradient dy (s + x s (1 - s)): in 16 bits PyTorch keeps s rounded, so 1 - s is wrong by up to
    2**-12 or 2**-9, and x of up to 8 and dy of up to 4 multiply that; then the sum is rounded.
    """
    if output == "y":
        return {
            "float32": Tolerance(atol=1e-7, rtol=5e-6),
            "float16": Tolerance(atol=2.0**-18, rtol=2.0**-8),
            "bfloat16": Tolerance(atol=1e-7, rtol=2.0**-5),
        }[case.dtype]
    return {
        "float32": Tolerance(atol=4e-6, rtol=5e-6),
        "float16": Tolerance(atol=1e-2, rtol=2.0**-8),
        "bfloat16": Tolerance(atol=1e-1, rtol=2.0**-5),
    }[case.dtype]


def traffic(case: Case, phase: Phase) -> Traffic:
    """Forward: x in, y out. Backward: x and dy in, dx out, with the sigmoid computed again."""
    n = case.dims["M"] * case.dims["N"]
    if phase == "forward":
        return Traffic(read=n, written=n)
    return Traffic(read=3 * n, written=2 * n)


def min_bytes(case: Case | BenchmarkCase, phase: Phase) -> int:
    """Two tensors from x to y, three from x and dy to dx."""
    n = case.dims["M"] * case.dims["N"]
    return {"forward": 2, "backward": 3, "both": 5}[phase] * n * ITEMSIZE[case.dtype]


def flops(case: Case | BenchmarkCase, phase: Phase) -> int:
    """Operators of the formula as written: 5 forward, 10 backward, one for each function call."""
    n = case.dims["M"] * case.dims["N"]
    return {"forward": 5, "backward": 10, "both": 15}[phase] * n


def eager(x: torch.Tensor) -> torch.Tensor:
    """The formula, operator by operator."""
    return x * torch.sigmoid(x)


def builtin(x: torch.Tensor) -> torch.Tensor:
    """PyTorch's fused SiLU."""
    return functional.silu(x)


def _benchmark(m: int, n: int, dtype: Dtype) -> BenchmarkCase:
    return BenchmarkCase(
        dims={"M": m, "N": n},
        dtype=dtype,
        inputs=(InputSpec("x", (m, n), dtype, scale=2.0, requires_grad=True),),
        phases=("forward", "backward", "both"),
    )


CASES = (
    Case({"M": 2, "N": 1024}, "float32", why="a whole number of blocks: nothing to mask"),
    Case({"M": 1, "N": 1}, "float32", why="a single element"),
    Case({"M": 7, "N": 131}, "float32", why="917 elements: the only block is partly filled"),
    Case(
        {"M": 61, "N": 1009},
        "float32",
        why="61,549 elements: many blocks, the last one partly filled, and none may be left out",
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
        why="all values negative: the output has its minimum there, and the gradient changes sign",
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
        {"M": 33, "N": 257},
        "float32",
        grad_layout="expanded",
        why="y.sum().backward() sends one 1.0 repeated with stride 0, not a full tensor of ones",
    ),
    Case(
        {"M": 3, "N": 100},
        "float32",
        variant="large",
        why="|x| up to 10,000: exp(x) overflows, so e / (1 + e) is inf / inf",
    ),
    Case(
        {"M": 5, "N": 12},
        "float32",
        groups=frozenset({"gradcheck"}),
        why="gradient against finite differences in float64",
    ),
)

PROBLEM = Problem(
    name="silu",
    kind="kernel",
    points=4,
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
