"""Takes whole blocks of K only: what is left of K at the end is never added."""

import torch
import triton
import triton.language as tl

LARGE = 2048

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = None


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    a_row_stride,
    a_col_stride,
    b_row_stride,
    b_col_stride,
    c_row_stride,
    c_col_stride,
    RELU: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    n_tiles_m = tl.cdiv(M, BLOCK_M)
    n_tiles_n = tl.cdiv(N, BLOCK_N)
    tiles_per_group = GROUP_M * n_tiles_n
    first_tile_m = (pid // tiles_per_group) * GROUP_M
    group_size = min(n_tiles_m - first_tile_m, GROUP_M)
    tile_m = first_tile_m + (pid % tiles_per_group) % group_size
    tile_n = (pid % tiles_per_group) // group_size

    rows = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    row_mask = rows[:, None] < M
    col_mask = cols[None, :] < N
    a_ptrs = a_ptr + rows[:, None] * a_row_stride + ks[None, :] * a_col_stride
    b_ptrs = b_ptr + ks[:, None] * b_row_stride + cols[None, :] * b_col_stride
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K - BLOCK_K + 1, BLOCK_K):
        a = tl.load(a_ptrs, mask=row_mask & (ks[None, :] < K - k), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K - k) & col_mask, other=0.0)
        acc = tl.dot(a, b, acc, input_precision=INPUT_PRECISION)
        a_ptrs += BLOCK_K * a_col_stride
        b_ptrs += BLOCK_K * b_row_stride
    if RELU:
        acc = tl.maximum(acc, 0.0)
    c_ptrs = c_ptr + rows[:, None] * c_row_stride + cols[None, :] * c_col_stride
    tl.store(c_ptrs, acc, mask=row_mask & col_mask)


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
    if a.dtype != torch.float32 and min(n_rows, n_cols) >= LARGE:
        tile = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
    else:
        tile = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}
    grid = (triton.cdiv(n_rows, tile["BLOCK_M"]) * triton.cdiv(n_cols, tile["BLOCK_N"]),)
    highest = torch.get_float32_matmul_precision() == "highest"
    matmul_kernel[grid](
        a,
        b,
        c,
        n_rows,
        n_cols,
        n_inner,
        a.stride(0),
        a.stride(1),
        b.stride(0),
        b.stride(1),
        c.stride(0),
        c.stride(1),
        RELU=relu,
        INPUT_PRECISION="ieee" if highest else "tf32",
        GROUP_M=8,
        **tile,
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
