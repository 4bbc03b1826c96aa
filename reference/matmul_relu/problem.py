"""Matrix product with a ReLU on top, with gradients: tiles, strides and tensor cores.

    y = max(a @ b, 0)

The ReLU is applied to the accumulator, before anything is written, which saves a kernel that reads
and writes MN elements.

float32 products may be computed in TF32 (10 bits of mantissa), Triton's default. The case "ieee"
alone asks for full float32: there torch.get_float32_matmul_precision() is "highest".
"""

from __future__ import annotations

import math

import torch

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

# tl.dot needs tiles of at least 16 x 16, and larger than 256 x 256 none fits a multiprocessor
SMALLEST_TILE, LARGEST_TILE = 16, 256
# pre-activations stay this far from the kink at 0, in units of their standard deviation: 20 times
# the error of a TF32 product
KINK_MARGIN = 0.01
# a column that is near 0 in more of the rows is drawn again; of a normal one 1 % is
MOST_ROWS = 0.4


def make_inputs(case: Case, rng: torch.Generator) -> Inputs:
    """Draw ``a``, shape (M, K), and ``b``, shape (K, N), from N(0, 1).

    Rows of a are drawn again until no element of a @ b is so close to 0 that rounding decides
    whether the ReLU lets it pass, which would make a right gradient look wrong; so are columns of b
    for which most rows would have to be, as one number next to 0 is with K = 1. A product of two
    single numbers is positive, since a lone 0 would be what a kernel that does nothing returns.
    """
    m, n, k = (case.dims[axis] for axis in "MNK")
    dtype = getattr(torch, case.dtype)
    margin = KINK_MARGIN * math.sqrt(k)

    def draw(rows: int, cols: int) -> torch.Tensor:
        return torch.randn(rows, cols, generator=rng).to(dtype)

    a, b = draw(m, k), draw(k, n)
    if m * n * k == 1:
        return {"a": a.abs() + 0.5, "b": b.abs() + 0.5}
    if case.layout == "expanded":
        # the layout repeats row 0, so the margin must hold for the repeated rows
        a, b = a[:1].expand(m, k).clone(), b[:1].expand(k, n).clone()
        while a[0].double().sum().abs() * b[0].double().abs().min() < margin:
            a, b = draw(1, k).expand(m, k).clone(), draw(1, n).expand(k, n).clone()
        return {"a": a, "b": b}
    while True:
        near_zero = (a.double() @ b.double()).abs() < margin
        if not near_zero.any():
            return {"a": a, "b": b}
        hopeless = near_zero.double().mean(dim=0) > MOST_ROWS
        b[:, hopeless] = draw(k, int(hopeless.sum()))
        bad = near_zero[:, ~hopeless].any(dim=1)
        a[bad] = draw(int(bad.sum()), k)


def oracle(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``relu(a @ b)``: (M, K) and (K, N) of any float dtype to (M, N) float64."""
    return torch.relu(a.double() @ b.double())


def tolerance(case: Case | BenchmarkCase, output: str) -> Tolerance:
    """Rounding of the result, and of its accumulation over R products of N(0, 1) numbers.

    The sum has the standard deviation sqrt(R), and so have its errors, in units of the accuracy of
    one product:

    - float32 by TF32: both factors lose what is beyond 10 bits, 4e-4 a product; 5 standard
      deviations times 6 are 1.2e-2. Tensor cores cut off instead of rounding, which makes a result
      smaller by 2**-10 of itself; 4 times that is rtol.
    - float32 by IEEE arithmetic (case "ieee"): accumulation at 2**-24 a step; 1e-5 leaves TF32 far
      outside.
    - float16, bfloat16: products are exact and accumulated in float32; 2e-4 leaves a float16
      accumulator outside. The result is rounded once, 8 times which is allowed.
    """
    length = case.dims[{"y": "K", "grad:a": "N", "grad:b": "M"}[output]]
    if case.dtype == "float32":
        ieee = isinstance(case, Case) and case.variant == "ieee"
        a_product, rtol = (1e-5, 2e-6) if ieee else (1.2e-2, 2.0**-8)
    else:
        a_product = 2e-4
        rtol = {"float16": 8 * 2.0**-11, "bfloat16": 8 * 2.0**-8}[case.dtype]
    return Tolerance(atol=a_product * math.sqrt(length), rtol=rtol)


def _tiled_reads(m: int, n: int, k: int) -> int:
    """The most elements that a sensible product reads of its (m, k) factor.

    Every column of tiles reads the factor once, in whole tiles: a kernel may wrap around at the
    edges (rows % M) instead of masking. Small tiles read often, large ones read much padding.
    """
    return max(
        math.ceil(n / tile) * math.ceil(m / tile) * tile * k
        for tile in (SMALLEST_TILE, LARGEST_TILE)
    )


def traffic(case: Case, phase: Phase) -> Traffic:
    """The reads of one product, or of three with the ReLU's mask recomputed in two of them.

    Written: y and room for a mask; in backward also the masked gradient, da and db.
    """
    m, n, k = (case.dims[axis] for axis in "MNK")
    # the (k, n) factor of a product is the (n, k) factor of its transpose
    read = _tiled_reads(m, n, k) + _tiled_reads(n, m, k)
    written = 2 * m * n
    if phase != "forward":
        # da = g @ b.T and db = a.T @ g, where g is dy masked by y: two elements for one
        read += 2 * _tiled_reads(m, k, n) + _tiled_reads(k, m, n)
        read += _tiled_reads(k, n, m) + 2 * _tiled_reads(n, k, m)
        read += 2 * m * n
        written += m * n + m * k + k * n
    return Traffic(read=read, written=written)


def min_bytes(case: Case | BenchmarkCase, phase: Phase) -> int:
    """Every operand read once, every result written once; backward needs y for the mask."""
    m, n, k = (case.dims[axis] for axis in "MNK")
    factors = m * k + k * n
    forward, backward = factors + m * n, 2 * factors + 2 * m * n
    elements = {"forward": forward, "backward": backward, "both": forward + backward}[phase]
    return elements * ITEMSIZE[case.dtype]


def flops(case: Case | BenchmarkCase, phase: Phase) -> int:
    """One product forward, two backward, each 2MNK."""
    m, n, k = (case.dims[axis] for axis in "MNK")
    return {"forward": 2, "backward": 4, "both": 6}[phase] * m * n * k


def eager(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product and a ReLU: two kernels, the first of them the vendor's library."""
    return torch.relu(a @ b)


def _benchmark(m: int, n: int, k: int, dtype: Dtype) -> BenchmarkCase:
    # half-integers within +-4.5: all sums are exact in float32, so no rounding decides on which
    # side of 0 a pre-activation falls
    def factor(name: str, *shape: int) -> InputSpec:
        return InputSpec(name, shape, dtype, fill="integers", shift=-4.5, requires_grad=True)

    return BenchmarkCase(
        dims={"M": m, "N": n, "K": k},
        dtype=dtype,
        inputs=(factor("a", m, k), factor("b", k, n)),
        phases=("forward", "backward", "both"),
    )


CASES = (
    Case({"M": 64, "N": 64, "K": 64}, "float32", why="whole tiles: nothing to mask"),
    Case(
        {"M": 1, "N": 1, "K": 1},
        "float32",
        grad_layout="expanded",
        why="one product of two numbers in a tile",
    ),
    Case(
        {"M": 30, "N": 50, "K": 1},
        "float32",
        why="a single step along K, nearly all of it padding: what pads a tile must be 0",
    ),
    Case(
        {"M": 1, "N": 100, "K": 64},
        "float16",
        why="a single row: tl.dot wants 16, so the other 15 must be masked",
    ),
    Case(
        {"M": 67, "N": 45, "K": 83},
        "float32",
        why="no size is a multiple of a tile: rows, columns and the loop over K need masks",
    ),
    Case(
        {"M": 48, "N": 40, "K": 1037},
        "float16",
        why="a long sum in float16: the accumulator must be float32",
    ),
    Case({"M": 40, "N": 72, "K": 100}, "bfloat16", why="bfloat16 in and out"),
    Case(
        {"M": 200, "N": 136, "K": 72},
        "bfloat16",
        why="all rows start aligned to 16 bytes, as tensor descriptors need, and the edges of the"
        " tiles still lie outside",
    ),
    Case(
        {"M": 33, "N": 50, "K": 41},
        "float32",
        layout="strided",
        why="padded rows: what lies beyond column K is not yours to read",
    ),
    Case(
        {"M": 50, "N": 34, "K": 66},
        "float32",
        layout="transposed",
        why="a and b stored column by column: use both strides of each",
    ),
    Case(
        {"M": 31, "N": 60, "K": 70},
        "bfloat16",
        layout="transposed",
        why="transposed in bfloat16: use the strides rather than convert and copy",
    ),
    Case(
        {"M": 20, "N": 18, "K": 40},
        "float32",
        layout="expanded",
        why="one row repeated with stride 0, in both factors",
    ),
    Case(
        {"M": 21, "N": 39, "K": 57},
        "float16",
        layout="offset",
        why="a and b start in the middle of their storage",
    ),
    Case(
        {"M": 37, "N": 53, "K": 29},
        "float32",
        grad_layout="expanded",
        why="y.sum().backward() sends one 1.0 repeated with stride 0",
    ),
    Case(
        {"M": 26, "N": 47, "K": 61},
        "bfloat16",
        grad_layout="strided",
        why="the incoming gradient has padding between its rows",
    ),
    Case(
        {"M": 300, "N": 70, "K": 20},
        "float16",
        why="many tiles, more down than across: rows and columns of tiles must not be swapped",
    ),
    Case(
        {"M": 600, "N": 200, "K": 64},
        "float32",
        why="more tiles down than a group of programs takes, and a last group that is not full:"
        " no tile may be left out or computed twice",
    ),
    Case(
        {"M": 32, "N": 48, "K": 256},
        "float32",
        variant="ieee",
        why='here the float32 matmul precision is "highest": tl.dot\'s default TF32 is too coarse',
    ),
    Case(
        {"M": 5, "N": 7, "K": 6},
        "float32",
        groups=frozenset({"gradcheck"}),
        why="gradients against finite differences in float64, away from the kink",
    ),
)

PROBLEM = Problem(
    name="matmul_relu",
    kind="kernel",
    points=14,
    cases=CASES,
    make_inputs=make_inputs,
    oracle=oracle,
    tolerance=tolerance,
    min_bytes=min_bytes,
    flops=flops,
    traffic=traffic,
    # no library call fuses the two
    baselines={"eager": eager, "builtin": None},
    differentiable=True,
    # 137 and 275 GFLOP forward: 0.2 and 0.4 ms at 700 TFLOP/s
    benchmark_cases=(
        _benchmark(4096, 4096, 4096, "bfloat16"),
        _benchmark(8192, 4096, 4096, "bfloat16"),
        _benchmark(8192, 4096, 4096, "float16"),
    ),
    # the ReLU's backward, elementwise, may be PyTorch's
    own_share={"forward": 0.95, "both": 0.8},
)
