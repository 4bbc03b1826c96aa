"""Vector addition: the first kernel. One program adds one block, a mask guards the last one.

A kernel cannot move less than 2n elements in and n out, and this one has no reason to move more.
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
# below its smallest normal number float16 rounds in steps of 2**-24, not relatively
SMALLEST = {"float32": 1e-30, "float16": 2.0**-22, "bfloat16": 1e-30}


def make_inputs(case: Case, rng: torch.Generator) -> Inputs:
    """Draw ``x`` and ``y``, shape (n,), from N(0, 1).

    The variant "extreme" spreads the exponents over most of what the dtype can hold, so that a
    detour through a narrower dtype overflows or vanishes.
    """
    n, dtype = case.dims["n"], getattr(torch, case.dtype)
    x, y = torch.randn(2, n, generator=rng)
    if case.variant == "extreme":
        low, high = (-4.0, 4.0) if case.dtype == "float16" else (-20.0, 30.0)
        scale = 10.0 ** torch.linspace(low, high, n)
        # clamped, so that a rare draw cannot make the true sum overflow float16
        x, y = x.clamp(-2.5, 2.5) * scale, y.clamp(-2.5, 2.5) * scale
    return {"x": x.to(dtype), "y": y.to(dtype)}


def oracle(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """``x + y``: (n,) of any float dtype to (n,) float64."""
    return x.double() + y.double()


def tolerance(case: Case | BenchmarkCase, output: str) -> Tolerance:
    """One rounding of the exact sum, with a factor 8 to spare."""
    return Tolerance(atol=SMALLEST[case.dtype], rtol=8 * ROUNDING[case.dtype])


def traffic(case: Case, phase: Phase) -> Traffic:
    """Every element of x and y read once, every element of the sum written once."""
    n = case.dims["n"]
    return Traffic(read=2 * n, written=n)


def min_bytes(case: Case | BenchmarkCase, phase: Phase) -> int:
    """Two vectors in, one out."""
    return 3 * case.dims["n"] * ITEMSIZE[case.dtype]


def flops(case: Case | BenchmarkCase, phase: Phase) -> int:
    """One addition an element."""
    return case.dims["n"]


def eager(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """PyTorch's own addition, which is also the built-in."""
    return x + y


def _benchmark(n: int, dtype: Dtype) -> BenchmarkCase:
    return BenchmarkCase(
        dims={"n": n},
        dtype=dtype,
        inputs=(InputSpec("x", (n,), dtype), InputSpec("y", (n,), dtype)),
    )


# there is no gradient to check
GROUPS: frozenset[Group] = frozenset({"forward", "memory"})

CASES = (
    Case({"n": 1024}, "float32", groups=GROUPS, why="a whole number of blocks: nothing to mask"),
    Case(
        {"n": 1},
        "float32",
        groups=GROUPS,
        why="a single element: all lanes of the block but one are masked",
    ),
    Case(
        {"n": 1000},
        "float32",
        groups=GROUPS,
        why="the last block is only partly filled and needs a mask",
    ),
    Case(
        {"n": 4099},
        "float32",
        groups=GROUPS,
        why="three elements more than 4096: the last block must not be"
        " dropped when the grid is computed",
    ),
    Case(
        {"n": 100_003}, "float32", groups=GROUPS, why="many programs: each must find its own block"
    ),
    Case(
        {"n": 1_000_001},
        "float32",
        groups=GROUPS,
        why="a long vector: a grid of hundreds of programs, and one element in the last block",
    ),
    Case({"n": 1000}, "float16", groups=GROUPS, why="float16 in and out"),
    Case({"n": 1000}, "bfloat16", groups=GROUPS, why="bfloat16 in and out"),
    Case(
        {"n": 777},
        "float32",
        groups=GROUPS,
        layout="offset",
        why="x and y start in the middle of their storage: vectors need not be aligned",
    ),
    Case(
        {"n": 1500},
        "float16",
        groups=GROUPS,
        layout="strided",
        why="every second element of a longer vector: neighbours are two elements apart",
    ),
    Case(
        {"n": 513},
        "float32",
        groups=GROUPS,
        layout="expanded",
        why="one element repeated with stride 0: the vector's storage is shorter than the vector",
    ),
    Case(
        {"n": 300},
        "float32",
        groups=GROUPS,
        variant="extreme",
        why="values from 1e-20 to 1e30: a detour through a narrower dtype loses them",
    ),
    Case(
        {"n": 300},
        "float16",
        groups=GROUPS,
        variant="extreme",
        why="sums up to 50000, near the largest float16: bfloat16 would round them too coarsely",
    ),
    Case(
        {"n": 300},
        "bfloat16",
        groups=GROUPS,
        variant="extreme",
        why="values up to 1e30, which bfloat16 holds and float16 does not",
    ),
)

PROBLEM = Problem(
    name="vector_add",
    kind="kernel",
    points=4,
    cases=CASES,
    make_inputs=make_inputs,
    oracle=oracle,
    tolerance=tolerance,
    min_bytes=min_bytes,
    flops=flops,
    traffic=traffic,
    baselines={"eager": eager, "builtin": torch.add},
    # 1.6 and 1.2 GB: 0.4 and 0.3 ms at 4 TB/s
    benchmark_cases=(_benchmark(2**27, "float32"), _benchmark(3 * 2**26, "bfloat16")),
    own_share={"forward": 0.95},
)
