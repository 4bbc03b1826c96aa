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
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement load_tile")


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
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement store_tile")


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
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement attend")


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
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement attention_forward_kernel")


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
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement delta_kernel")


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
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement attend_backward_keys")


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
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement attention_backward_keys_kernel")


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
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement attend_backward_queries")


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
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement attention_backward_queries_kernel")


def precision():
    """What tl.dot may do with float32: TF32, or three products in TF32 that add up to float32."""
    # torch.get_float32_matmul_precision() is "highest" where plain TF32 is not allowed.
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement precision")


def uses_descriptors(*tensors):
    """Whether the GPU copies tiles by itself, and can do so with these contiguous tensors."""
    # False is right everywhere, and slower on a Hopper GPU: begin with it.
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement uses_descriptors")


def as_input(x, block, by_descriptor):
    """What a kernel gets to load tiles of [block, d] from x, shape (batch, n, d)."""
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement as_input")


def tiles(d, dtype, by_descriptor):
    """Launch parameters of the forward, of the backward for dk and dv, and of that for dq."""
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement tiles")


class FlashAttention(torch.autograd.Function):
    """Connects the kernels to autograd."""

    @staticmethod
    def forward(ctx, q, k, v, is_causal=False):
        """Compute the attention and save what the backward needs."""
        # Save one tensor of shape (batch, n_q): the logsumexp, in float32.
        # TODO: your code here, instead of the next line
        raise NotImplementedError("TODO: implement FlashAttention.forward")

    @staticmethod
    def backward(ctx, do):
        """Return the gradient for each argument of forward: q, k, v, is_causal."""
        # TODO: your code here, instead of the next line
        raise NotImplementedError("TODO: implement FlashAttention.backward")


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
