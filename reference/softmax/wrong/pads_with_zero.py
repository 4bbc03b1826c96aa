"""Pads the row with 0 instead of -inf: every padded lane adds exp(0 - max) to the sum."""

import torch
import triton
import triton.language as tl

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = None

LIMIT = 4096


@triton.jit
def softmax_forward_kernel(
    x_ptr, y_ptr, x_row_stride, y_row_stride, n_cols, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    at = x_ptr + row * x_row_stride + cols
    x = tl.load(at, mask=mask, other=0.0).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator * (1 / tl.sum(numerator, axis=0))
    tl.store(y_ptr + row * y_row_stride + cols, y, mask=mask)


@triton.jit
def softmax_long_forward_kernel(
    x_ptr, y_ptr, x_row_stride, y_row_stride, n_cols, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0).to(tl.int64)
    x_row_ptr = x_ptr + row * x_row_stride
    y_row_ptr = y_ptr + row * y_row_stride
    largest = -float("inf")
    sums = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_row_ptr + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new_largest = tl.maximum(largest, tl.max(x, axis=0))
        shift = tl.where(new_largest == -float("inf"), 0.0, new_largest)
        sums = sums * tl.exp(largest - shift) + tl.exp(x - shift)
        largest = new_largest
    scale = 1 / tl.sum(sums, axis=0)
    n_blocks = tl.cdiv(n_cols, BLOCK_SIZE)
    for i in range(n_blocks):
        cols = (n_blocks - 1 - i) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_row_ptr + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(y_row_ptr + cols, tl.exp(x - largest) * scale, mask=cols < n_cols)


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
    y_at = y_ptr + row * y_row_stride + cols
    dy_at = dy_ptr + row * dy_row_stride + cols
    y = tl.load(y_at, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_at, mask=mask, other=0.0).to(tl.float32)
    dx = y * (dy - tl.sum(y * dy, axis=0))
    tl.store(dx_ptr + row * dx_row_stride + cols, dx, mask=mask)


@triton.jit
def softmax_long_backward_kernel(
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
    y_row_ptr = y_ptr + row * y_row_stride
    dy_row_ptr = dy_ptr + row * dy_row_stride
    dx_row_ptr = dx_ptr + row * dx_row_stride
    products = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        y = tl.load(y_row_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        dy = tl.load(dy_row_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        products += y * dy
    total = tl.sum(products, axis=0)
    n_blocks = tl.cdiv(n_cols, BLOCK_SIZE)
    for i in range(n_blocks):
        cols = (n_blocks - 1 - i) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        y = tl.load(y_row_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        dy = tl.load(dy_row_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        tl.store(dx_row_ptr + cols, y * (dy - total), mask=cols < n_cols)


def launch_sizes(x, limit):
    n_cols = x.shape[1]
    if n_cols > limit:
        return 4096, 8
    block_size = triton.next_power_of_2(n_cols)
    n_warps = block_size * x.element_size() // (32 * 32)
    return block_size, min(max(n_warps, 1), 16)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        if x.stride(1) != 1:
            x = x.contiguous()
        n_rows, n_cols = x.shape
        y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
        kernel = softmax_forward_kernel if n_cols <= LIMIT else softmax_long_forward_kernel
        block_size, num_warps = launch_sizes(x, LIMIT)
        kernel[(n_rows,)](
            x, y, x.stride(0), y.stride(0), n_cols, BLOCK_SIZE=block_size, num_warps=num_warps
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
        kernel = softmax_backward_kernel if n_cols <= LIMIT else softmax_long_backward_kernel
        block_size, num_warps = launch_sizes(y, LIMIT)
        kernel[(n_rows,)](
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
