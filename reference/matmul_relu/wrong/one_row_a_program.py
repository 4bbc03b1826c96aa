"""Computes one row a program, without tiles: every row reads all of b."""

import torch
import triton
import triton.language as tl

EXPECTED_VERDICT = "excess_traffic"
EXPECTED_GROUP = "memory"
EXPECTED_CASES = None


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    N,
    K,
    a_row_stride,
    a_col_stride,
    b_row_stride,
    b_col_stride,
    c_row_stride,
    RELU: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.program_id(axis=1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + row * a_row_stride + ks * a_col_stride, mask=ks < K, other=0.0)
        b = tl.load(
            b_ptr + ks[:, None] * b_row_stride + cols[None, :] * b_col_stride,
            mask=(ks[:, None] < K) & (cols[None, :] < N),
            other=0.0,
        )
        acc += tl.sum(a[:, None].to(tl.float32) * b.to(tl.float32), axis=0)
    if RELU:
        acc = tl.maximum(acc, 0.0)
    tl.store(c_ptr + row * c_row_stride + cols, acc, mask=cols < N)


@triton.jit
def relu_backward_kernel(
    y_ptr,
    dy_ptr,
    g_ptr,
    N,
    y_row_stride,
    dy_row_stride,
    dy_col_stride,
    g_row_stride,
    BLOCK_N: tl.constexpr,
):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.program_id(axis=1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = cols < N
    y = tl.load(y_ptr + row * y_row_stride + cols, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + row * dy_row_stride + cols * dy_col_stride, mask=mask, other=0.0)
    tl.store(g_ptr + row * g_row_stride + cols, tl.where(y > 0, dy, 0.0), mask=mask)


def matmul(a, b, *, relu):
    n_rows, n_inner = a.shape
    n_cols = b.shape[1]
    c = torch.empty((n_rows, n_cols), dtype=a.dtype, device=a.device)
    matmul_kernel[(n_rows, triton.cdiv(n_cols, 64))](
        a,
        b,
        c,
        n_cols,
        n_inner,
        a.stride(0),
        a.stride(1),
        b.stride(0),
        b.stride(1),
        c.stride(0),
        RELU=relu,
        BLOCK_N=64,
        BLOCK_K=32,
    )
    return c


class MatmulReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        y = matmul(a, b, relu=True)
        ctx.save_for_backward(a, b, y)
        return y

    @staticmethod
    def backward(ctx, dy):
        a, b, y = ctx.saved_tensors
        n_rows, n_cols = y.shape
        g = torch.empty_like(y)
        grid = (n_rows, triton.cdiv(n_cols, 1024))
        relu_backward_kernel[grid](
            y,
            dy,
            g,
            n_cols,
            y.stride(0),
            dy.stride(0),
            dy.stride(1),
            g.stride(0),
            BLOCK_N=1024,
        )
        return matmul(g, b.T, relu=False), matmul(a.T, g, relu=False)


def matmul_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return MatmulReLU.apply(a, b)
