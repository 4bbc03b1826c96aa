"""Loads every row anew for the result after it was loaded for the sum, in both kernels."""

import torch
import triton
import triton.language as tl

MAX_PROGRAMS = 1024
MIN_ROWS_PER_PROGRAM = 4

EXPECTED_VERDICT = "excess_traffic"
EXPECTED_GROUP = "memory"
EXPECTED_CASES = None


@triton.jit
def rmsnorm_forward_kernel(
    x_ptr,
    weight_ptr,
    y_ptr,
    rstd_ptr,
    x_row_stride,
    y_row_stride,
    n_cols,
    eps,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = 1 / tl.sqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * y_row_stride + cols, x * rstd * weight, mask=mask)


@triton.jit
def rmsnorm_backward_kernel(
    x_ptr,
    weight_ptr,
    dy_ptr,
    rstd_ptr,
    dx_ptr,
    partial_ptr,
    x_row_stride,
    dy_row_stride,
    dx_row_stride,
    partial_row_stride,
    n_rows,
    n_cols,
    rows_per_program,
    BLOCK_SIZE: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    dweight = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    first = pid * rows_per_program
    for row_index in range(first, min(first + rows_per_program, n_rows)):
        row = tl.cast(row_index, tl.int64)
        x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * dy_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        x_hat = x * rstd
        dy_weight = dy * weight
        mean = tl.sum(dy_weight * x_hat, axis=0) / n_cols
        x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * dy_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        dx = (dy_weight - x_hat * mean) * rstd
        tl.store(dx_ptr + row * dx_row_stride + cols, dx, mask=mask)
        dweight += dy * x_hat
    tl.store(partial_ptr + pid * partial_row_stride + cols, dweight, mask=mask)


def launch_sizes(n_cols):
    block_size = triton.next_power_of_2(n_cols)
    return block_size, min(max(block_size // 512, 1), 16)


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        if x.stride(1) != 1:
            x = x.contiguous()
        weight = weight.contiguous()
        n_rows, n_cols = x.shape
        y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
        rstd = torch.empty(n_rows, dtype=torch.float32, device=x.device)
        block_size, num_warps = launch_sizes(n_cols)
        rmsnorm_forward_kernel[(n_rows,)](
            x,
            weight,
            y,
            rstd,
            x.stride(0),
            y.stride(0),
            n_cols,
            eps,
            BLOCK_SIZE=block_size,
            num_warps=num_warps,
        )
        ctx.save_for_backward(x, weight, rstd)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, rstd = ctx.saved_tensors
        if dy.stride(1) != 1:
            dy = dy.contiguous()
        n_rows, n_cols = x.shape
        rows_per_program = max(triton.cdiv(n_rows, MAX_PROGRAMS), MIN_ROWS_PER_PROGRAM)
        n_programs = triton.cdiv(n_rows, rows_per_program)
        dx = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
        partial = torch.empty((n_programs, n_cols), dtype=torch.float32, device=x.device)
        block_size, num_warps = launch_sizes(n_cols)
        rmsnorm_backward_kernel[(n_programs,)](
            x,
            weight,
            dy,
            rstd,
            dx,
            partial,
            x.stride(0),
            dy.stride(0),
            dx.stride(0),
            partial.stride(0),
            n_rows,
            n_cols,
            rows_per_program,
            BLOCK_SIZE=block_size,
            num_warps=num_warps,
        )
        return dx, partial.sum(dim=0).to(weight.dtype), None


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return RMSNorm.apply(x, weight, eps)
