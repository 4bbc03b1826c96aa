"""Programs of different keys load, add to and store the same rows of dq: additions get lost."""

import math

import torch
import triton
import triton.language as tl

EXPECTED_VERDICT = "race"
EXPECTED_GROUP = "memory"
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
        scores = tl.where(cols[None, :] < n_k, scores, -float("inf"))
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


@triton.jit
def backward_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    do_ptr,
    dq_ptr,
    dk_ptr,
    dv_ptr,
    lse_ptr,
    delta_ptr,
    n_q,
    n_k,
    scale,
    CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK: tl.constexpr,
    D: tl.constexpr,
):
    batch = tl.program_id(axis=1)
    cols = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    dims = tl.arange(0, D)
    k_at = (batch * n_k + cols[:, None]) * D + dims[None, :]
    k = tl.load(k_ptr + k_at, mask=cols[:, None] < n_k, other=0.0)
    v = tl.load(v_ptr + k_at, mask=cols[:, None] < n_k, other=0.0)
    dk = tl.zeros((BLOCK, D), dtype=tl.float32)
    dv = tl.zeros((BLOCK, D), dtype=tl.float32)
    for start in range(0, n_q, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        mask = rows[:, None] < n_q
        q_at = (batch * n_q + rows[:, None]) * D + dims[None, :]
        q = tl.load(q_ptr + q_at, mask=mask, other=0.0)
        do = tl.load(do_ptr + q_at, mask=mask, other=0.0)
        lse = tl.load(lse_ptr + batch * n_q + rows, mask=rows < n_q, other=0.0)
        delta = tl.load(delta_ptr + batch * n_q + rows, mask=rows < n_q, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        p = tl.exp(scores - lse[:, None])
        p = tl.where(cols[None, :] < n_k, p, 0.0)
        if CAUSAL:
            p = tl.where(cols[None, :] <= rows[:, None], p, 0.0)
        dv += tl.dot(tl.trans(p.to(do.dtype)), do, input_precision=PRECISION)
        ds = p * (tl.dot(do, tl.trans(v), input_precision=PRECISION) - delta[:, None])
        ds = ds.to(q.dtype)
        dk += tl.dot(tl.trans(ds), q, input_precision=PRECISION) * scale
        dq = tl.load(dq_ptr + q_at, mask=mask, other=0.0)
        dq += tl.dot(ds, k, input_precision=PRECISION) * scale
        tl.store(dq_ptr + q_at, dq, mask=mask)
    tl.store(dk_ptr + k_at, dk, mask=cols[:, None] < n_k)
    tl.store(dv_ptr + k_at, dv, mask=cols[:, None] < n_k)


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
        q, k, v, o, lse = ctx.saved_tensors
        do = do.contiguous()
        batch, n_q, d = q.shape
        n_k = k.shape[1]
        dq = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
        dk, dv = torch.empty_like(k), torch.empty_like(v)
        delta = (do.float() * o.float()).sum(dim=-1)
        highest = torch.get_float32_matmul_precision() == "highest"
        backward_kernel[(triton.cdiv(n_k, 32), batch)](
            q,
            k,
            v,
            do,
            dq,
            dk,
            dv,
            lse,
            delta,
            n_q,
            n_k,
            1 / math.sqrt(d),
            CAUSAL=ctx.is_causal,
            PRECISION="ieee" if highest else "tf32",
            BLOCK=32,
            D=d,
        )
        return dq.to(q.dtype), dk, dv, None


def flash_attention(q, k, v, is_causal=False):
    return FlashAttention.apply(q, k, v, is_causal)
