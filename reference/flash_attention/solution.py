"""FlashAttention in Triton, forward and backward: softmax(q @ k.T / sqrt(d)) @ v without its matrix.

The matrix of scores has n_q x n_k elements, far too many to write to memory and read back. Instead a
program keeps one tile of queries and walks over the keys, a tile at a time. What it has summed so
far refers to the largest score it has seen; when a larger one comes, the sums are scaled down to it.

The backward computes the scores again, from q, k and one number per query: the logsumexp, which
turns a score into a probability at once, p = exp(score - logsumexp).

Tensors are contiguous here: row i of a batch starts at i * d, and d is a power of two. Hopper GPUs have
a unit that copies whole tiles to shared memory while the program computes. It is used through tensor
descriptors, which stand for pointers there, and takes a tenth off the time on an H200.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# exp(x) = exp2(x * LOG2_E), and a GPU computes exp2 directly
LOG2_E = tl.constexpr(1.4426950408889634)
# compute capability of the first GPUs that copy tiles by themselves
HOPPER = (9, 0)
# lengths of rows for which this pays
DESCRIBED_D = (64, 128)
# of the longest rows fewer fit into a tile
LARGE_D = 128


@triton.jit
def load_tile(
    x,  # (batches, n, D): a pointer, or a descriptor with blocks of [1, BLOCK, D]
    batch,
    start,  # first row of the tile
    n,
    MASKED: tl.constexpr,  # the tile may reach beyond row n
    BY_DESCRIPTOR: tl.constexpr,
    BLOCK: tl.constexpr,
    D: tl.constexpr,
):
    # Return the tile, [BLOCK, D], with zeros beyond row n: they add nothing to products.
    # BEGIN SOLUTION
    if BY_DESCRIPTOR:
        # it knows the shape of the tensor, and what lies outside is 0
        tile = x.load([batch, start, 0]).reshape(BLOCK, D)
    else:
        rows = start + tl.arange(0, BLOCK)
        # int64, because batch * n * D may pass 2**31
        ptrs = x + batch.to(tl.int64) * n * D + rows[:, None] * D + tl.arange(0, D)[None, :]
        tile = tl.load(ptrs, mask=rows[:, None] < n, other=0.0) if MASKED else tl.load(ptrs)
    return tile
    # END SOLUTION


@triton.jit
def store_tile(
    x_ptr,  # (batches, n, D)
    tile,  # [BLOCK, D], float32
    batch,
    start,
    n,
    BLOCK: tl.constexpr,
    D: tl.constexpr,
):
    # Write the rows of the tile that the tensor has. tl.store rounds to the tensor's dtype.
    # BEGIN SOLUTION
    rows = start + tl.arange(0, BLOCK)
    ptrs = x_ptr + batch.to(tl.int64) * n * D + rows[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(ptrs, tile, mask=rows[:, None] < n)
    # END SOLUTION


@triton.jit
def attend(
    acc,  # [BLOCK_Q, D], sum of p * v so far, with p = exp2(score - row_max)
    row_sum,  # [BLOCK_Q], sum of p so far
    row_max,  # [BLOCK_Q], largest score so far; scores are in units of log2
    q,  # [BLOCK_Q, D]
    k_in,
    v_in,
    batch,
    start,  # first key of the tile
    rows,  # [BLOCK_Q], numbers of the queries
    n_k,
    scale_log2,  # log2(e) / sqrt(d)
    MASKED: tl.constexpr,  # some key of the tile does not count for some query
    CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr,
    BY_DESCRIPTOR: tl.constexpr,
    BLOCK_K: tl.constexpr,
    D: tl.constexpr,
):
    # Add one tile of keys and values; return the new acc, row_sum and row_max.
    # BEGIN SOLUTION
    k = load_tile(k_in, batch, start, n_k, MASKED, BY_DESCRIPTOR, BLOCK_K, D)
    scores = tl.dot(q, k.T, input_precision=PRECISION)
    if MASKED:
        cols = start + tl.arange(0, BLOCK_K)
        counts = cols[None, :] < n_k
        if CAUSAL:
            counts = counts & (cols[None, :] <= rows[:, None])
        scores = tl.where(counts, scores, -float("inf"))
    new_max = tl.maximum(row_max, tl.max(scores, axis=1) * scale_log2)
    p = tl.exp2(scores * scale_log2 - new_max[:, None])
    # what was summed before refers to the old maximum
    shrink = tl.exp2(row_max - new_max)
    row_sum = row_sum * shrink + tl.sum(p, axis=1)
    v = load_tile(v_in, batch, start, n_k, MASKED, BY_DESCRIPTOR, BLOCK_K, D)
    acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision=PRECISION)
    return acc, row_sum, new_max
    # END SOLUTION


@triton.jit
def attention_forward_kernel(
    q_in,  # (batch, n_q, D)
    k_in,  # (batch, n_k, D)
    v_in,  # likewise
    o_ptr,  # (batch, n_q, D)
    lse_ptr,  # (batch, n_q): log(sum(exp(score))) of each query
    n_q,
    n_k,
    scale,  # 1 / sqrt(d)
    CAUSAL: tl.constexpr,  # query i sees keys j <= i
    PRECISION: tl.constexpr,  # of tl.dot: "tf32" or "tf32x3", matters for float32 only
    BY_DESCRIPTOR: tl.constexpr,  # q, k and v are descriptors
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    D: tl.constexpr,
):
    # One program computes one tile of queries. Most tiles of keys need no mask: only those on the
    # diagonal, and the last one if it is not full. Leave out tiles that no query of yours sees.
    # BEGIN SOLUTION
    # causal: the last queries see most keys, so start with them; short programs fill the gaps
    tile = tl.num_programs(axis=1) - 1 - tl.program_id(axis=1)
    batch = tl.program_id(axis=0)
    lse_ptr += batch.to(tl.int64) * n_q
    first = tile * BLOCK_Q
    rows = first + tl.arange(0, BLOCK_Q)
    # the keys from 0 to n_full count for every query, those from n_seen on for none
    n_seen = n_k
    n_full = n_k // BLOCK_K * BLOCK_K
    if CAUSAL:
        n_seen = tl.minimum(n_k, first + BLOCK_Q)
        n_full = tl.minimum(n_full, (first + 1) // BLOCK_K * BLOCK_K)

    q = load_tile(q_in, batch, first, n_q, True, BY_DESCRIPTOR, BLOCK_Q, D)
    acc = tl.zeros((BLOCK_Q, D), dtype=tl.float32)
    row_sum = tl.zeros((BLOCK_Q,), dtype=tl.float32)
    row_max = tl.full((BLOCK_Q,), -float("inf"), dtype=tl.float32)
    for masked in tl.static_range(2):
        for start in range(n_full if masked else 0, n_seen if masked else n_full, BLOCK_K):
            acc, row_sum, row_max = attend(
                acc,
                row_sum,
                row_max,
                q,
                k_in,
                v_in,
                batch,
                start,
                rows,
                n_k,
                scale * LOG2_E,
                masked,
                CAUSAL,
                PRECISION,
                BY_DESCRIPTOR,
                BLOCK_K,
                D,
            )
    store_tile(o_ptr, acc / row_sum[:, None], batch, first, n_q, BLOCK_Q, D)
    tl.store(lse_ptr + rows, (row_max + tl.log2(row_sum)) / LOG2_E, mask=rows < n_q)
    # END SOLUTION


@triton.jit
def delta_kernel(
    o_ptr,  # (batch, n_q, D)
    do_ptr,  # likewise
    delta_ptr,  # (batch, n_q)
    n_q,
    BLOCK_Q: tl.constexpr,
    D: tl.constexpr,
):
    # delta_i = sum of do_ic * o_ic over c: what the backward of the softmax subtracts
    # BEGIN SOLUTION
    batch = tl.program_id(axis=0)
    first = tl.program_id(axis=1) * BLOCK_Q
    o = load_tile(o_ptr, batch, first, n_q, True, False, BLOCK_Q, D)
    do = load_tile(do_ptr, batch, first, n_q, True, False, BLOCK_Q, D)
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), axis=1)
    rows = first + tl.arange(0, BLOCK_Q)
    tl.store(delta_ptr + batch.to(tl.int64) * n_q + rows, delta, mask=rows < n_q)
    # END SOLUTION


@triton.jit
def attend_backward_keys(
    dk,  # [BLOCK_K, D], summed so far
    dv,  # likewise
    k,  # [BLOCK_K, D]
    v,  # likewise
    q_in,
    do_in,
    lse_ptr,  # of this batch
    delta_ptr,  # likewise
    batch,
    start,  # first query of the tile
    cols,  # [BLOCK_K], numbers of the keys
    n_q,
    n_k,
    scale_log2,
    MASKED: tl.constexpr,
    CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr,
    BY_DESCRIPTOR: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    D: tl.constexpr,
):
    # Add what one tile of queries contributes; return the new dk and dv.
    # With p = exp(score - lse):  dv = p.T @ do,  dp = do @ v.T,  ds = p * (dp - delta),
    # dk = ds.T @ q / sqrt(d).
    # BEGIN SOLUTION
    rows = start + tl.arange(0, BLOCK_Q)
    q = load_tile(q_in, batch, start, n_q, True, BY_DESCRIPTOR, BLOCK_Q, D)
    lse = tl.load(lse_ptr + rows, mask=rows < n_q, other=0.0)
    # keys down, queries across: p and ds are then already transposed for dv and dk
    scores = tl.dot(k, q.T, input_precision=PRECISION)
    p = tl.exp2(scores * scale_log2 - (lse * LOG2_E)[None, :])
    if MASKED:
        counts = cols[:, None] < n_k
        if CAUSAL:
            counts = counts & (cols[:, None] <= rows[None, :])
        p = tl.where(counts, p, 0.0)
    # queries beyond n_q need no mask: there q and do are 0, and so is all that they add
    do = load_tile(do_in, batch, start, n_q, True, BY_DESCRIPTOR, BLOCK_Q, D)
    dv = tl.dot(p.to(do.dtype), do, dv, input_precision=PRECISION)
    dp = tl.dot(v, do.T, input_precision=PRECISION)
    delta = tl.load(delta_ptr + rows, mask=rows < n_q, other=0.0)
    ds = p * (dp - delta[None, :])
    dk = tl.dot(ds.to(q.dtype), q, dk, input_precision=PRECISION)
    return dk, dv
    # END SOLUTION


@triton.jit
def attention_backward_keys_kernel(
    q_in,  # (batch, n_q, D)
    k_in,  # (batch, n_k, D)
    v_in,  # likewise
    do_in,  # (batch, n_q, D)
    dk_ptr,  # (batch, n_k, D)
    dv_ptr,  # likewise
    lse_ptr,  # (batch, n_q)
    delta_ptr,  # likewise
    n_q,
    n_k,
    scale,  # 1 / sqrt(d)
    CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr,
    BY_DESCRIPTOR: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    D: tl.constexpr,
):
    # One program computes one tile of dk and dv: it walks over the queries that see its keys.
    # BEGIN SOLUTION
    # causal: the first keys are seen by most queries, and program 0 starts first
    first = tl.program_id(axis=1) * BLOCK_K
    batch = tl.program_id(axis=0)
    lse_ptr += batch.to(tl.int64) * n_q
    delta_ptr += batch.to(tl.int64) * n_q
    cols = first + tl.arange(0, BLOCK_K)
    k = load_tile(k_in, batch, first, n_k, True, BY_DESCRIPTOR, BLOCK_K, D)
    v = load_tile(v_in, batch, first, n_k, True, BY_DESCRIPTOR, BLOCK_K, D)
    dk = tl.zeros((BLOCK_K, D), dtype=tl.float32)
    dv = tl.zeros((BLOCK_K, D), dtype=tl.float32)
    # queries before first_seen see none of the keys, those from first_full on all of them
    first_seen = 0
    first_full = 0
    if CAUSAL:
        first_seen = first // BLOCK_Q * BLOCK_Q
        first_full = tl.cdiv(first + BLOCK_K - 1, BLOCK_Q) * BLOCK_Q
    if first + BLOCK_K > n_k:
        # keys beyond n_k count for no query
        first_full = tl.cdiv(n_q, BLOCK_Q) * BLOCK_Q
    first_full = tl.minimum(first_full, n_q)
    for masked in tl.static_range(2):
        begin = first_seen if masked else first_full
        for start in range(begin, first_full if masked else n_q, BLOCK_Q):
            dk, dv = attend_backward_keys(
                dk,
                dv,
                k,
                v,
                q_in,
                do_in,
                lse_ptr,
                delta_ptr,
                batch,
                start,
                cols,
                n_q,
                n_k,
                scale * LOG2_E,
                masked,
                CAUSAL,
                PRECISION,
                BY_DESCRIPTOR,
                BLOCK_Q,
                D,
            )
    store_tile(dk_ptr, dk * scale, batch, first, n_k, BLOCK_K, D)
    store_tile(dv_ptr, dv, batch, first, n_k, BLOCK_K, D)
    # END SOLUTION


@triton.jit
def attend_backward_queries(
    dq,  # [BLOCK_Q, D], summed so far
    q,  # [BLOCK_Q, D]
    do,  # likewise
    lse,  # [BLOCK_Q], in units of log2
    delta,  # [BLOCK_Q]
    k_in,
    v_in,
    batch,
    start,  # first key of the tile
    rows,  # [BLOCK_Q], numbers of the queries
    n_k,
    scale_log2,
    MASKED: tl.constexpr,
    CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr,
    BY_DESCRIPTOR: tl.constexpr,
    BLOCK_K: tl.constexpr,
    D: tl.constexpr,
):
    # Add what one tile of keys contributes; return the new dq = ds @ k / sqrt(d).
    # BEGIN SOLUTION
    k = load_tile(k_in, batch, start, n_k, MASKED, BY_DESCRIPTOR, BLOCK_K, D)
    v = load_tile(v_in, batch, start, n_k, MASKED, BY_DESCRIPTOR, BLOCK_K, D)
    scores = tl.dot(q, k.T, input_precision=PRECISION)
    dp = tl.dot(do, v.T, input_precision=PRECISION)
    p = tl.exp2(scores * scale_log2 - lse[:, None])
    if MASKED:
        cols = start + tl.arange(0, BLOCK_K)
        counts = cols[None, :] < n_k
        if CAUSAL:
            counts = counts & (cols[None, :] <= rows[:, None])
        p = tl.where(counts, p, 0.0)
    ds = p * (dp - delta[:, None])
    return tl.dot(ds.to(k.dtype), k, dq, input_precision=PRECISION)
    # END SOLUTION


@triton.jit
def attention_backward_queries_kernel(
    q_in,  # (batch, n_q, D)
    k_in,  # (batch, n_k, D)
    v_in,  # likewise
    do_in,  # (batch, n_q, D)
    dq_ptr,  # likewise
    lse_ptr,  # (batch, n_q)
    delta_ptr,  # likewise
    n_q,
    n_k,
    scale,  # 1 / sqrt(d)
    CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr,
    BY_DESCRIPTOR: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    D: tl.constexpr,
):
    # One program computes one tile of dq: it walks over the keys as the forward does.
    # BEGIN SOLUTION
    tile = tl.num_programs(axis=1) - 1 - tl.program_id(axis=1)
    batch = tl.program_id(axis=0)
    lse_ptr += batch.to(tl.int64) * n_q
    delta_ptr += batch.to(tl.int64) * n_q
    first = tile * BLOCK_Q
    rows = first + tl.arange(0, BLOCK_Q)
    n_seen = n_k
    n_full = n_k // BLOCK_K * BLOCK_K
    if CAUSAL:
        n_seen = tl.minimum(n_k, first + BLOCK_Q)
        n_full = tl.minimum(n_full, (first + 1) // BLOCK_K * BLOCK_K)

    q = load_tile(q_in, batch, first, n_q, True, BY_DESCRIPTOR, BLOCK_Q, D)
    do = load_tile(do_in, batch, first, n_q, True, BY_DESCRIPTOR, BLOCK_Q, D)
    lse = tl.load(lse_ptr + rows, mask=rows < n_q, other=0.0) * LOG2_E
    delta = tl.load(delta_ptr + rows, mask=rows < n_q, other=0.0)
    dq = tl.zeros((BLOCK_Q, D), dtype=tl.float32)
    for masked in tl.static_range(2):
        for start in range(n_full if masked else 0, n_seen if masked else n_full, BLOCK_K):
            dq = attend_backward_queries(
                dq,
                q,
                do,
                lse,
                delta,
                k_in,
                v_in,
                batch,
                start,
                rows,
                n_k,
                scale * LOG2_E,
                masked,
                CAUSAL,
                PRECISION,
                BY_DESCRIPTOR,
                BLOCK_K,
                D,
            )
    store_tile(dq_ptr, dq * scale, batch, first, n_q, BLOCK_Q, D)
    # END SOLUTION


def precision():
    """What tl.dot may do with float32: TF32, or three products in TF32 that add up to float32."""
    # torch.get_float32_matmul_precision() is "highest" where plain TF32 is not allowed.
    # BEGIN SOLUTION
    return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    # END SOLUTION


def uses_descriptors(*tensors):
    """Whether the GPU copies tiles by itself, and can do so with these contiguous tensors."""
    # False is right everywhere, and slower on a Hopper GPU: begin with it.
    # BEGIN SOLUTION
    if torch.cuda.get_device_capability() < HOPPER:
        return False
    # float16 in rows of 128 bytes or 256; then all start at a multiple of 16 bytes if the first does
    return all(
        x.dtype != torch.float32 and x.shape[-1] in DESCRIBED_D and x.data_ptr() % 16 == 0
        for x in tensors
    )
    # END SOLUTION


def as_input(x, block, by_descriptor):
    """What a kernel gets to load tiles of [block, d] from x, shape (batch, n, d)."""
    # BEGIN SOLUTION
    return TensorDescriptor.from_tensor(x, [1, block, x.shape[-1]]) if by_descriptor else x
    # END SOLUTION


def tiles(d, dtype, by_descriptor):
    """Launch parameters of the forward, of the backward for dk and dv, and of that for dq."""
    # BEGIN SOLUTION
    if by_descriptor and d < LARGE_D:
        # the fastest of about 30 each on an H200
        chosen = [(64, 128, 2), (128, 64, 2), (64, 128, 3)]
    elif by_descriptor:
        chosen = [(64, 64, 3), (64, 64, 2), (64, 64, 2)]
    elif dtype == torch.float32:
        chosen = [(32, 32, 2), (16, 32, 2), (32, 16, 2)]
    else:
        chosen = [(64, 64, 3), (32, 64, 3), (64, 32, 3)]
    # left to itself ptxas may aim at 96 registers a thread, and keep the rest in memory
    options = {"num_warps": 4} if by_descriptor else {"num_warps": 4, "maxnreg": 255}
    return [
        {"BLOCK_Q": block_q, "BLOCK_K": block_k, "num_stages": stages, **options}
        for block_q, block_k, stages in chosen
    ]
    # END SOLUTION


class FlashAttention(torch.autograd.Function):
    """Connects the kernels to autograd."""

    @staticmethod
    def forward(ctx, q, k, v, is_causal=False):
        """Compute the attention and save what the backward needs."""
        # Save one tensor of shape (batch, n_q): the logsumexp, in float32.
        # BEGIN SOLUTION
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch, n_q, d = q.shape
        n_k = k.shape[1]
        o = torch.empty_like(q)
        lse = torch.empty((batch, n_q), dtype=torch.float32, device=q.device)
        by_descriptor = uses_descriptors(q, k, v)
        tile, _, _ = tiles(d, q.dtype, by_descriptor)
        block_q, block_k = tile["BLOCK_Q"], tile["BLOCK_K"]
        attention_forward_kernel[(batch, triton.cdiv(n_q, block_q))](
            as_input(q, block_q, by_descriptor),
            as_input(k, block_k, by_descriptor),
            as_input(v, block_k, by_descriptor),
            o,
            lse,
            n_q,
            n_k,
            d**-0.5,
            CAUSAL=is_causal,
            PRECISION=precision(),
            BY_DESCRIPTOR=by_descriptor,
            D=d,
            **tile,
        )
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.is_causal = is_causal
        return o
        # END SOLUTION

    @staticmethod
    def backward(ctx, do):
        """Return the gradient for each argument of forward: q, k, v, is_causal."""
        # BEGIN SOLUTION
        q, k, v, o, lse = ctx.saved_tensors
        do = do.contiguous()
        batch, n_q, d = q.shape
        n_k = k.shape[1]
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        delta = torch.empty_like(lse)
        delta_kernel[(batch, triton.cdiv(n_q, 64))](o, do, delta, n_q, BLOCK_Q=64, D=d)

        by_descriptor = uses_descriptors(q, k, v, do)
        options = {
            "CAUSAL": ctx.is_causal,
            "PRECISION": precision(),
            "BY_DESCRIPTOR": by_descriptor,
            "D": d,
        }
        _, for_keys, for_queries = tiles(d, q.dtype, by_descriptor)
        n_tiles_k = triton.cdiv(n_k, for_keys["BLOCK_K"])
        n_tiles_q = triton.cdiv(n_q, for_queries["BLOCK_Q"])
        for kernel, n_tiles, tile, grads in (
            (attention_backward_keys_kernel, n_tiles_k, for_keys, (dk, dv)),
            (attention_backward_queries_kernel, n_tiles_q, for_queries, (dq,)),
        ):
            block_q, block_k = tile["BLOCK_Q"], tile["BLOCK_K"]
            kernel[(batch, n_tiles)](
                as_input(q, block_q, by_descriptor),
                as_input(k, block_k, by_descriptor),
                as_input(v, block_k, by_descriptor),
                as_input(do, block_q, by_descriptor),
                *grads,
                lse,
                delta,
                n_q,
                n_k,
                d**-0.5,
                **options,
                **tile,
            )
        return dq, dk, dv, None
        # END SOLUTION


def flash_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool = False
) -> torch.Tensor:
    """softmax(q @ k.T / sqrt(d)) @ v, differentiable.

    Args:
        q: Shape (batch, n_q, d), d = 16, 32, 64 or 128; float32, float16 or bfloat16. Any strides.
        k: Shape (batch, n_k, d), dtype of q. Any strides. n_k may differ from n_q.
        v: Like k.
        is_causal: Query i sees the keys j <= i only.

    Returns:
        A new contiguous tensor of the shape and dtype of q. Scores, sums and the logsumexp are
        float32. Products of float32 may be rounded to TF32, except where
        torch.get_float32_matmul_precision() is "highest".

    The matrix of scores, n_q x n_k, is never written. The forward saves exactly one tensor of shape
    (batch, n_q), the logsumexp of each query's scores (natural logarithm, scale included).
    """
    return FlashAttention.apply(q, k, v, is_causal)
