"""Masks the loads, but not the scores: keys beyond the last count with a score of 0."""

import math

import torch
import triton
import triton.language as tl

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = None


@triton.jit
def forward_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    n_q,
    n_k,
    scale,
    CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK: tl.constexpr,
    D: tl.constexpr,
):
    batch = tl.program_id(axis=1)
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    dims = tl.arange(0, D)
    q_at = (batch * n_q + rows[:, None]) * D + dims[None, :]
    q = tl.load(q_ptr + q_at, mask=rows[:, None] < n_q, other=0.0)
    acc = tl.zeros((BLOCK, D), dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    largest = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    for start in range(0, n_k, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        k_at = (batch * n_k + cols[:, None]) * D + dims[None, :]
        k = tl.load(k_ptr + k_at, mask=cols[:, None] < n_k, other=0.0)
        v = tl.load(v_ptr + k_at, mask=cols[:, None] < n_k, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        if CAUSAL:
            scores = tl.where(cols[None, :] <= rows[:, None], scores, -float("inf"))
        new = tl.maximum(largest, tl.max(scores, axis=1))
        p = tl.exp(scores - new[:, None])
        shrink = tl.exp(largest - new)
        total = total * shrink + tl.sum(p, axis=1)
        acc = acc * shrink[:, None]
        acc += tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
        largest = new
    tl.store(o_ptr + q_at, acc / total[:, None], mask=rows[:, None] < n_q)
    tl.store(lse_ptr + batch * n_q + rows, largest + tl.log(total), mask=rows < n_q)


class FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, is_causal=False):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch, n_q, d = q.shape
        o = torch.empty_like(q)
        lse = torch.empty((batch, n_q), dtype=torch.float32, device=q.device)
        highest = torch.get_float32_matmul_precision() == "highest"
        forward_kernel[(triton.cdiv(n_q, 32), batch)](
            q,
            k,
            v,
            o,
            lse,
            n_q,
            k.shape[1],
            1 / math.sqrt(d),
            CAUSAL=is_causal,
            PRECISION="ieee" if highest else "tf32",
            BLOCK=32,
            D=d,
        )
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.is_causal = is_causal
        return o

    @staticmethod
    def backward(ctx, do):
        dtype = do.dtype
        q, k, v, o, lse = (x.float() for x in ctx.saved_tensors)
        do = do.float()
        scale = 1 / math.sqrt(q.shape[-1])
        scores = q @ k.mT * scale
        if ctx.is_causal:
            hidden = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill(hidden, -math.inf)
        p = torch.exp(scores - lse[:, :, None])
        dv = p.mT @ do
        ds = p * (do @ v.mT - (do * o).sum(dim=-1, keepdim=True))
        dq, dk = ds @ k * scale, ds.mT @ q * scale
        return dq.to(dtype), dk.to(dtype), dv.to(dtype), None


def flash_attention(q, k, v, is_causal=False):
    return FlashAttention.apply(q, k, v, is_causal)
