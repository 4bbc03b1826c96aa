"""Steps along a row by one element in memory, also where the next one is a column away."""

import torch
import triton
import triton.language as tl

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = ("M33-N65-float32-transposed",)


@triton.jit
def softmax_forward_kernel(
    x_ptr, y_ptr, x_row_stride, y_row_stride, n_cols, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=-float("inf"))
    x = x.to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(y_ptr + row * y_row_stride + cols, y, mask=mask)


@triton.jit
def softmax_backward_kernel(
    y_ptr,
    dy_ptr,
    dx_ptr,
    y_row_stride,
    dy_row_stride,
    dx_row_stride,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    y = tl.load(y_ptr + row * y_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * dy_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    dx = y * (dy - tl.sum(y * dy, axis=0))
    tl.store(dx_ptr + row * dx_row_stride + cols, dx, mask=mask)


def launch_sizes(n_cols):
    block_size = triton.next_power_of_2(n_cols)
    return (block_size, min(max(block_size // 512, 1), 16))


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        n_rows, n_cols = x.shape
        y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
        block_size, num_warps = launch_sizes(n_cols)
        softmax_forward_kernel[(n_rows,)](
            x,
            y,
            x.stride(0),
            y.stride(0),
            n_cols,
            BLOCK_SIZE=block_size,
            num_warps=num_warps,
        )
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        if dy.stride(1) != 1:
            dy = dy.contiguous()
        n_rows, n_cols = y.shape
        dx = torch.empty_like(y)
        block_size, num_warps = launch_sizes(n_cols)
        softmax_backward_kernel[(n_rows,)](
            y,
            dy,
            dx,
            y.stride(0),
            dy.stride(0),
            dx.stride(0),
            n_cols,
            BLOCK_SIZE=block_size,
            num_warps=num_warps,
        )
        return dx


def softmax(x: torch.Tensor) -> torch.Tensor:
    return Softmax.apply(x)
