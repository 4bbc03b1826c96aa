"""Attention without its matrix of scores, with gradients: tiles, an online softmax, recomputation.

    s_ij = sum_c q_ic k_jc / sqrt(d)        causal: j <= i only
    y_ic = sum_j softmax_j(s_ij) v_jc       lse_i = log sum_j exp(s_ij)

n_q x n_k scores written and read again cost more time than all the products. The forward keeps q, k,
v, y and lse; from these the backward computes every score anew.

Source: Dao 2023, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning",
arXiv:2307.08691, algorithms 1 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

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

# tl.dot needs tiles of 16 rows at least; of more than 128, four do not fit on a multiprocessor
TILES = (16, 128)
# scores of variant "shifted" lie near +SHIFT or -SHIFT; exp overflows float32 from 89 on
SHIFT = 128.0
# the oracle's scores at one time: 128 MB in float64
CHUNK_SCORES = 1 << 24
# flex_attention's tiles
FLEX_BLOCK = 128


def make_inputs(case: Case, rng: torch.Generator) -> Inputs:
    """Draw ``q``, shape (B, NQ, D), and ``k`` and ``v``, shape (B, NK, D), from N(0, 1).

    Variant "shifted": the first components of q and k add +128 to the scores of even queries and
    -128 to those of odd ones, which changes lse and nothing else. Variant "fading": all scores of a
    query are equal, and the first 16 values are thousands of times larger than those that follow.
    """
    batch, n_q, n_k, d = (case.dims[axis] for axis in ("B", "NQ", "NK", "D"))
    q = torch.randn(batch, n_q, d, generator=rng)
    k = torch.randn(batch, n_k, d, generator=rng)
    v = torch.randn(batch, n_k, d, generator=rng)
    if case.variant.startswith("shifted"):
        # sqrt(d) is whole in these cases, so that no dtype rounds the shift
        k[:, :, 0] = 16
        q[:, 0::2, 0] = SHIFT * math.sqrt(d) / 16
        q[:, 1::2, 0] = -SHIFT * math.sqrt(d) / 16
    if case.variant == "fading":
        k[:] = 0
        v = 0.002 + 0.001 * v.abs()
        v[:, :16] += 100
    dtype = getattr(torch, case.dtype)
    return {
        "q": q.to(dtype),
        "k": k.to(dtype),
        "v": v.to(dtype),
        "is_causal": case.scalars["is_causal"],
    }


def _chunks(
    q: torch.Tensor, k: torch.Tensor, is_causal: bool
) -> Iterator[tuple[slice, slice, torch.Tensor]]:
    """Rows, the keys that they see, and their scores, -inf where a query does not see a key."""
    batch, n_q, d = q.shape
    n_k = k.shape[1]
    step = max(1, CHUNK_SCORES // (batch * n_k))
    for first in range(0, n_q, step):
        end = min(first + step, n_q)
        seen = min(end, n_k) if is_causal else n_k
        scores = (q[:, first:end] / math.sqrt(d)) @ k[:, :seen].mT
        if is_causal:
            rows = torch.arange(first, end, device=q.device)
            cols = torch.arange(seen, device=q.device)
            scores.masked_fill_(cols[None, :] > rows[:, None], -math.inf)
        yield slice(first, end), slice(seen), scores


class _Attention(torch.autograd.Function):
    """Attention in float64 that holds few scores at a time, forward and backward."""

    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool
    ) -> torch.Tensor:
        """Attention of float64 tensors."""
        y = torch.empty_like(q, memory_format=torch.contiguous_format)
        for rows, cols, scores in _chunks(q, k, is_causal):
            y[:, rows] = torch.softmax(scores, dim=-1) @ v[:, cols]
        ctx.save_for_backward(q, k, v, y)
        ctx.is_causal = is_causal
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The gradients of q, k and v."""
        q, k, v, y = ctx.saved_tensors
        scale = 1 / math.sqrt(q.shape[-1])
        dq, dk, dv = (torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
        for rows, cols, scores in _chunks(q, k, ctx.is_causal):
            p = torch.softmax(scores, dim=-1)
            ds = dy[:, rows] @ v[:, cols].mT
            ds -= (dy[:, rows] * y[:, rows]).sum(dim=-1, keepdim=True)
            ds *= p
            dq[:, rows] = ds @ k[:, cols] * scale
            dk[:, cols] += ds.mT @ q[:, rows] * scale
            dv[:, cols] += p.mT @ dy[:, rows]
        return dq, dk, dv, None


def oracle(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
    """Attention: (B, NQ, D), twice (B, NK, D), of any float dtype, to (B, NQ, D) float64."""
    leaves = (x.double() for x in (q, k, v))
    # torch leaves apply untyped
    y: torch.Tensor = _Attention.apply(*leaves, is_causal)  # type: ignore[no-untyped-call]
    return y


def logsumexp(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
    """What the forward saves: log of the sum of exp of each query's scores, (B, NQ) float64."""
    chunks = _chunks(q.double(), k.double(), is_causal)
    return torch.cat([torch.logsumexp(scores, dim=-1) for _, _, scores in chunks], dim=1)


def tolerance(case: Case | BenchmarkCase, output: str) -> Tolerance:
    """Four times the rounding of the result, and of the terms of its sums before their products.

    A row sums hundreds of terms, each rounded to the dtype before it enters a product. These errors
    add up as the terms do, so they are a share of the row's own size. One bound for all rows would
    not do: causal, query i averages i + 1 values, and the last of 16384 rows are so small that zeros
    would be within what rounding costs in the first ones. Shares seen, of which 4 times and a little
    is allowed:

    - float32 by TF32: factors are cut to 10 bits, so scores of size 3 are off by 3e-3; 0.012;
    - float32 by IEEE arithmetic (case "ieee"): 2**-24 a step, 1e-5 leaves TF32 far outside;
    - float16 and bfloat16: PyTorch's operators round scores and probabilities, 2**-12 and 2**-9 of
      their size each time: 0.0055 and 0.042. Kernels keep scores in float32: 0.002 and 0.017, with
      q scaled before it is rounded.

    In gradients a score counts p * (dp - delta), and a query that sees one key has dp = delta: of
    its gradient, 0, the rounding of dp and delta is left, in ``_differences``.

    The logsumexp is float32 whatever the dtype of q; factors may be scaled, and so rounded, before
    their product. Variant "shifted" has components 32 to 64 times the others, and gradients with
    errors to match: q's come from k, and k's from q. Variant "fading" has exact scores and values
    without a sign: only the rounding of the result counts, so that a float16 accumulator, wrong by
    1 %, fails.
    """
    variant = case.variant if isinstance(case, Case) else ""
    share = {"float32": 0.06, "float16": 0.024, "bfloat16": 0.2}[case.dtype]
    rtol = {"float32": 2e-6, "float16": 4 * 2.0**-11, "bfloat16": 4 * 2.0**-8}[case.dtype]
    saved = {"float32": 0.02, "float16": 5e-3, "bfloat16": 0.05}[case.dtype]
    if variant == "ieee":
        share, saved = 4e-5, 5e-6
    if output == "saved":
        return Tolerance(atol=saved, rtol=1e-6)
    if variant == "fading":
        return Tolerance(atol=0.0, rtol=rtol)
    scale = 1
    if variant.startswith("shifted"):
        scale = {"y": 1, "grad:q": 4, "grad:k": 16, "grad:v": 1}[output]
    differences = 0.0 if variant == "ieee" else _differences(case, output)
    return Tolerance(atol=scale * differences, rtol=rtol, row=scale * share)


def _differences(case: Case | BenchmarkCase, output: str) -> float:
    """What rounding leaves of dp - delta where both are equal, in the gradients of q and k.

    They are of size sqrt(d), and divided by it: 4e-3 was seen by TF32, 3e-4 in float16, 1e-3 in
    bfloat16, and there up to 2e-2 where dp or delta itself is rounded. That is for p = 1, as in the
    first causal queries; one of NK keys has p = 8 / NK at most, or nearly.

    However many keys, it stays below what 16 rows of zeros would be wrong by: gradients of the last
    queries are of size 1.2 / sqrt(NK), the largest in 16 rows three times that.
    """
    size = {"float32": 0.03, "float16": 3e-3, "bfloat16": 0.06}[case.dtype]
    n_k = case.dims["NK"]
    if output == "grad:k":
        return size * min(1.0, 8 / n_k)
    is_first_seen = output == "grad:q" and case.scalars["is_causal"]
    return min(size, 2.5 / math.sqrt(n_k)) if is_first_seen else 0.0


def traffic(case: Case, phase: Phase) -> Traffic:
    """Every tile of queries reads all keys and values once, whatever the size of the tiles.

    The backward may walk twice, once for dq and once for dk and dv, or once, adding up dq in memory.
    Written: results, and per query a few numbers. The scores, NQ x NK, are not among them.
    """
    batch, n_q, n_k, d = (case.dims[axis] for axis in ("B", "NQ", "NK", "D"))
    # all tiles are read whole: a kernel may wrap around at the edges instead of masking
    keys_read = max(_walks(n_q, tile) * _padded(n_k, tile) * 2 * d for tile in TILES)
    queries_read = max(_walks(n_k, tile) * _padded(n_q, tile) * (2 * d + 2) for tile in TILES)
    own = max(_padded(n_q, tile) for tile in TILES) * (d + 2)
    read, written = keys_read + own, n_q * d + 2 * n_q
    if phase != "forward":
        added = _walks(n_k, TILES[0]) * n_q * d
        tensors = max(_padded(n_q, tile) * 4 * d + _padded(n_k, tile) * 2 * d for tile in TILES)
        read += keys_read + queries_read + 2 * tensors + added
        written += added + 3 * n_q * d + 2 * n_k * d + 2 * n_q
    return Traffic(read=batch * read, written=batch * written)


def _walks(n: int, tile: int) -> int:
    return math.ceil(n / tile)


def _padded(n: int, tile: int) -> int:
    return math.ceil(n / tile) * tile


def min_bytes(case: Case | BenchmarkCase, phase: Phase) -> int:
    """q, k, v to y; backward q, k, v, y and dy to dq, dk and dv."""
    batch, n_q, n_k, d = (case.dims[axis] for axis in ("B", "NQ", "NK", "D"))
    forward, backward = 2 * n_q + 2 * n_k, 4 * n_q + 4 * n_k
    elements = {"forward": forward, "backward": backward, "both": forward + backward}[phase]
    return batch * elements * d * ITEMSIZE[case.dtype]


def flops(case: Case | BenchmarkCase, phase: Phase) -> int:
    """Two products forward; backward the scores again and four more; 2D a score each.

    Anchor: 16 x 16384 x 16384 scores, D = 64, are 1.1e12 operations forward, causal half of it.
    """
    batch, n_q, n_k, d = (case.dims[axis] for axis in ("B", "NQ", "NK", "D"))
    scores = n_q * n_k
    if case.scalars["is_causal"]:
        # query i sees min(i + 1, n_k) keys
        square = min(n_q, n_k)
        scores = square * (square + 1) // 2 + max(0, n_q - n_k) * n_k
    return {"forward": 2, "backward": 5, "both": 7}[phase] * 2 * d * batch * scores


def eager(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
    """The formula, operator by operator: writes and reads NQ x NK scores several times."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if is_causal:
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    return torch.softmax(scores, dim=-1) @ v


def builtin(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
    """PyTorch's fused attention, by the fastest of its libraries that is there."""
    # in this order on an H200: forward 1.27 and 1.96 ms at 16 x 16384 x 64, causal, bfloat16
    backends = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    with sdpa_kernel(backends, set_priority=True):
        # the batch takes the place of the heads
        return scaled_dot_product_attention(q[None], k[None], v[None], is_causal=is_causal)[0]


def compiled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
    """PyTorch's attention as a template that torch.compile fills in; the plain formula stays slow.

    As many queries as keys, a multiple of its tiles: the benchmark's sizes.
    """
    if not is_causal:
        return flex_attention(q[None], k[None], v[None])[0]
    # row i of tiles: those before i count in full, tile i is masked
    n = q.shape[1] // FLEX_BLOCK
    tiles = torch.arange(n, dtype=torch.int32, device=q.device)
    mask = BlockMask.from_kv_blocks(
        torch.ones_like(tiles)[None, None],
        tiles[None, None, :, None].expand(1, 1, n, n).contiguous(),
        tiles[None, None],
        tiles.expand(1, 1, n, n).contiguous(),
        BLOCK_SIZE=FLEX_BLOCK,
        mask_mod=lambda _batch, _head, row, col: col <= row,
    )
    return flex_attention(q[None], k[None], v[None], block_mask=mask)[0]


def _benchmark(
    batch: int, n: int, d: int, dtype: Dtype, phases: tuple[Phase, ...], *, is_causal: bool
) -> BenchmarkCase:
    return BenchmarkCase(
        dims={"B": batch, "NQ": n, "NK": n, "D": d},
        dtype=dtype,
        inputs=tuple(InputSpec(x, (batch, n, d), dtype, requires_grad=True) for x in "qkv"),
        scalars={"is_causal": is_causal},
        phases=phases,
    )


def _case(
    dims: tuple[int, int, int, int],
    dtype: Dtype,
    variant: str = "",
    *,
    is_causal: bool = False,
    **settings: Any,
) -> Case:
    """A case of (B, NQ, NK, D); the id of a causal one says so."""
    return Case(
        dict(zip(("B", "NQ", "NK", "D"), dims, strict=True)),
        dtype,
        variant=variant or ("causal" if is_causal else ""),
        scalars={"is_causal": is_causal},
        **settings,
    )


VALUES_ONLY: frozenset[Group] = frozenset({"forward", "memory"})

CASES = (
    _case((2, 128, 128, 64), "float32", why="whole tiles of queries and keys: nothing to mask"),
    _case(
        (2, 128, 128, 64),
        "float32",
        is_causal=True,
        why="causal, whole tiles: query i sees the keys j <= i, itself included",
    ),
    _case(
        (3, 100, 100, 64),
        "float32",
        why="no tile of 16 or more divides 100: keys that pad the last tile must not count",
    ),
    _case(
        (3, 100, 100, 32),
        "float16",
        is_causal=True,
        why="causal in float16, tiles cut by the diagonal and by the end",
    ),
    _case(
        (2, 77, 150, 64),
        "bfloat16",
        why="more keys than queries: two sizes, two strides, two masks",
    ),
    _case(
        (2, 150, 77, 32), "float32", why="more queries than keys: the last tiles are queries alone"
    ),
    _case(
        (2, 60, 130, 32),
        "float32",
        is_causal=True,
        why="causal with more keys than queries: the last keys are seen by nobody, their gradient is 0",
    ),
    _case(
        (2, 130, 60, 16),
        "bfloat16",
        is_causal=True,
        why="causal with more queries than keys: the last queries see all keys",
    ),
    _case(
        (1, 200, 300, 16), "float32", why="d = 16: the matrix of scores would be by far the largest"
    ),
    _case((2, 70, 90, 128), "float16", why="d = 128: larger tiles than at 64, fewer of them fit"),
    _case(
        (1, 90, 90, 128),
        "float32",
        is_causal=True,
        why="d = 128 in float32: the tiles that need the most room",
    ),
    _case(
        (3, 1, 90, 64),
        "float32",
        why="a single query: a tile of queries that is nearly all padding",
    ),
    _case(
        (2, 50, 1, 32),
        "float32",
        # the weight of the only key is 1 whatever the scores: q and k have no gradient
        groups=VALUES_ONLY,
        why="a single key: every query's result is its value",
    ),
    _case(
        (1, 20, 700, 32),
        "float32",
        why="many tiles of keys: what was summed must shrink whenever a larger score comes",
    ),
    _case(
        (2, 48, 80, 16),
        "float32",
        "shifted",
        why="scores near +128 and -128: exp overflows or vanishes unless the maximum is subtracted",
    ),
    _case(
        (1, 75, 75, 64),
        "float32",
        "shifted-causal",
        is_causal=True,
        why="scores near +128 and -128, causal: exp must not overflow in the backward either",
    ),
    _case(
        (1, 3, 6000, 16),
        "float16",
        "fading",
        groups=VALUES_ONLY,
        why="large values first, then thousands of small ones: a float16 accumulator loses those",
    ),
    _case(
        (2, 33, 70, 32),
        "float32",
        layout="strided",
        why="padded rows: query i starts at i * q.stride(1), not at i * d",
    ),
    _case(
        (2, 65, 40, 32),
        "float32",
        layout="transposed",
        is_causal=True,
        why="stored with d before n: neighbours in a row are not neighbours in memory",
    ),
    _case(
        (3, 40, 50, 64),
        "float16",
        layout="expanded",
        why="one batch repeated with stride 0, as when heads share their keys",
    ),
    _case(
        (2, 50, 60, 16),
        "bfloat16",
        layout="offset",
        why="tensors that start in the middle of their storage, aligned to nothing",
    ),
    _case(
        (2, 45, 61, 32),
        "float32",
        grad_layout="expanded",
        why="y.sum().backward() sends one 1.0 repeated with stride 0",
    ),
    _case(
        (2, 61, 45, 64),
        "float16",
        grad_layout="strided",
        is_causal=True,
        why="the incoming gradient has padding between its rows",
    ),
    _case(
        (2, 40, 56, 32),
        "float32",
        "ieee",
        why='here the float32 matmul precision is "highest": tl.dot\'s default TF32 is too coarse',
    ),
    _case(
        (1, 5, 4, 16),
        "float32",
        is_causal=True,
        groups=frozenset({"gradcheck"}),
        why="gradients against finite differences in float64, causal with more queries than keys",
    ),
)

PROBLEM = Problem(
    name="flash_attention",
    kind="kernel",
    points=20,
    cases=CASES,
    make_inputs=make_inputs,
    oracle=oracle,
    tolerance=tolerance,
    min_bytes=min_bytes,
    flops=flops,
    traffic=traffic,
    # thresholds are set against "compile": flex_attention, not torch.compile of the plain formula
    baselines={"eager": eager, "builtin": builtin, "compile": compiled},
    differentiable=True,
    saved_shape=lambda case: (case.dims["B"], case.dims["NQ"]),
    saved_oracle=logsumexp,
    # 0.55e12 operations forward, 1.4 ms at 400 TFLOP/s
    benchmark_cases=(
        _benchmark(16, 16384, 64, "bfloat16", ("forward", "backward", "both"), is_causal=True),
        _benchmark(16, 8192, 128, "float16", ("forward", "both"), is_causal=False),
    ),
    # a backward written with PyTorch's operators is honest, and takes far longer than the forward
    own_share={"forward": 0.95},
)
