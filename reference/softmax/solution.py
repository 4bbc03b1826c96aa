"""Softmax over rows in Triton, forward and backward.

One program handles one row. A row that fits into a block is read once: the block is the next power of
two, so it is usually longer than the row, and the lanes beyond the row's end must not change the
maximum or the sum. A longer row is read twice, block by block: first for maximum and sum, both in one
pass (the online softmax), then for the result.
"""

import torch
import triton
import triton.language as tl

# A program of 16 warps keeps a row this long in registers, in the backward y and dy. Longer rows go
# block by block.
FORWARD_LIMIT = 32768
BACKWARD_LIMIT = 16384


@triton.jit
def softmax_forward_kernel(
    x_ptr,  # (M, N)
    y_ptr,  # (M, N)
    x_row_stride,  # elements from one row of x to the next
    y_row_stride,  # likewise for y
    n_cols,  # N
    BLOCK_SIZE: tl.constexpr,  # a power of two, at least N
):
    # tl.max and tl.sum reduce a block: tl.max(x, axis=0).
    # What must tl.load put into the masked lanes (other=...) so that they do not matter?
    # BEGIN SOLUTION
    # int64, because row * stride passes 2**31 for large matrices
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)  # [BLOCK_SIZE]
    mask = cols < n_cols
    # -inf is never the maximum, and exp(-inf) = 0 adds nothing to the sum
    # evict_last keeps in the L2 cache what was read rather than what was written: nobody reads it
    # again, but 32768 x 4096 float32 take 0.251 instead of 0.261 ms on an H200
    at = x_ptr + row * x_row_stride + cols
    x = tl.load(at, mask=mask, other=-float("inf"), eviction_policy="evict_last").to(tl.float32)
    # without subtracting the maximum, exp(x) overflows from x = 89 on
    numerator = tl.exp(x - tl.max(x, axis=0))
    # one division a row, not one an element
    y = numerator * (1 / tl.sum(numerator, axis=0))
    tl.store(y_ptr + row * y_row_stride + cols, y, mask=mask)
    # END SOLUTION


@triton.jit
def softmax_long_forward_kernel(
    x_ptr,  # (M, N)
    y_ptr,  # (M, N)
    x_row_stride,
    y_row_stride,
    n_cols,
    BLOCK_SIZE: tl.constexpr,  # any power of two
):
    # Online softmax: keep the largest element so far and the sum of exp(x - largest). When a block
    # has a larger one, the old sum must be multiplied by exp(old largest - new largest).
    # What is that product as long as all elements were -inf?
    # BEGIN SOLUTION
    row = tl.program_id(axis=0).to(tl.int64)
    x_row_ptr = x_ptr + row * x_row_stride
    y_row_ptr = y_ptr + row * y_row_stride
    largest = -float("inf")
    # a sum for each lane: they are added up once, after the loop
    sums = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(
            x_row_ptr + cols,
            mask=cols < n_cols,
            other=-float("inf"),
            eviction_policy="evict_last",  # keep it in the cache: it is read again
        ).to(tl.float32)
        new_largest = tl.maximum(largest, tl.max(x, axis=0))
        # -inf - -inf is NaN, so subtract 0 while nothing but -inf was seen: exp(-inf - 0) is 0
        shift = tl.where(new_largest == -float("inf"), 0.0, new_largest)
        sums = sums * tl.exp(largest - shift) + tl.exp(x - shift)
        largest = new_largest
    scale = 1 / tl.sum(sums, axis=0)
    # backwards, because the end of the row was read last and may still be in the cache
    n_blocks = tl.cdiv(n_cols, BLOCK_SIZE)
    for i in range(n_blocks):
        cols = (n_blocks - 1 - i) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        x = tl.load(
            x_row_ptr + cols,
            mask=cols < n_cols,
            other=-float("inf"),
            eviction_policy="evict_first",  # this was the last time
        ).to(tl.float32)
        tl.store(y_row_ptr + cols, tl.exp(x - largest) * scale, mask=cols < n_cols)
    # END SOLUTION


@triton.jit
def softmax_backward_kernel(
    y_ptr,  # (M, N), the forward's result
    dy_ptr,  # (M, N), the incoming gradient
    dx_ptr,  # (M, N)
    y_row_stride,
    dy_row_stride,
    dx_row_stride,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    # dx_j = y_j (dy_j - sum_i y_i dy_i), the sum over the row
    # BEGIN SOLUTION
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    # 0 in the masked lanes adds nothing to the sum
    y_at = y_ptr + row * y_row_stride + cols
    dy_at = dy_ptr + row * dy_row_stride + cols
    y = tl.load(y_at, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
    dy = tl.load(dy_at, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
    dx = y * (dy - tl.sum(y * dy, axis=0))
    tl.store(dx_ptr + row * dx_row_stride + cols, dx, mask=mask)
    # END SOLUTION


@triton.jit
def softmax_long_backward_kernel(
    y_ptr,  # (M, N), the forward's result
    dy_ptr,  # (M, N), the incoming gradient
    dx_ptr,  # (M, N)
    y_row_stride,
    dy_row_stride,
    dx_row_stride,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    # Again two passes: one for the sum, one for the result.
    # BEGIN SOLUTION
    row = tl.program_id(axis=0).to(tl.int64)
    y_row_ptr = y_ptr + row * y_row_stride
    dy_row_ptr = dy_ptr + row * dy_row_stride
    dx_row_ptr = dx_ptr + row * dx_row_stride
    products = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        y = tl.load(
            y_row_ptr + cols, mask=cols < n_cols, other=0.0, eviction_policy="evict_last"
        ).to(tl.float32)
        dy = tl.load(
            dy_row_ptr + cols, mask=cols < n_cols, other=0.0, eviction_policy="evict_last"
        ).to(tl.float32)
        products += y * dy
    total = tl.sum(products, axis=0)
    n_blocks = tl.cdiv(n_cols, BLOCK_SIZE)
    for i in range(n_blocks):
        cols = (n_blocks - 1 - i) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        y = tl.load(
            y_row_ptr + cols, mask=cols < n_cols, other=0.0, eviction_policy="evict_first"
        ).to(tl.float32)
        dy = tl.load(
            dy_row_ptr + cols, mask=cols < n_cols, other=0.0, eviction_policy="evict_first"
        ).to(tl.float32)
        tl.store(dx_row_ptr + cols, y * (dy - total), mask=cols < n_cols)
    # END SOLUTION


def launch_sizes(x, limit):
    """Choose BLOCK_SIZE and num_warps for the rows of x, in one block up to a length of limit."""
    # BEGIN SOLUTION
    n_cols = x.shape[1]
    if n_cols > limit:
        return 16384, 32
    block_size = triton.next_power_of_2(n_cols)
    # two loads of 16 bytes a thread: with 8 warps instead of 16, rows of 4096 float32 take 1 %
    # longer on an H200
    n_warps = block_size * x.element_size() // (32 * 32)
    return block_size, min(max(n_warps, 1), 16)
    # END SOLUTION


class Softmax(torch.autograd.Function):
    """Connects the kernels to autograd."""

    @staticmethod
    def forward(ctx, x):
        """Compute softmax over the rows and save what the backward needs."""
        # The row stride may be anything (padded rows, a repeated row), so pass it to the kernel.
        # If the last axis is not contiguous (x.stride(1) != 1), copy: x.contiguous().
        # More elements in a block need more warps: kernel[grid](..., num_warps=8).
        # BEGIN SOLUTION
        if x.stride(1) != 1:
            x = x.contiguous()
        n_rows, n_cols = x.shape
        y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
        kernel = softmax_forward_kernel if n_cols <= FORWARD_LIMIT else softmax_long_forward_kernel
        block_size, num_warps = launch_sizes(x, FORWARD_LIMIT)
        kernel[(n_rows,)](
            x,
            y,
            x.stride(0),
            y.stride(0),
            n_cols,
            BLOCK_SIZE=block_size,
            num_warps=num_warps,
        )
        # the gradient needs y alone, so x can be freed
        ctx.save_for_backward(y)
        return y
        # END SOLUTION

    @staticmethod
    def backward(ctx, dy):
        """Return the gradient for each argument of forward, here x alone."""
        # dy may have any strides, 0 included.
        # BEGIN SOLUTION
        (y,) = ctx.saved_tensors
        # y.sum().backward() sends a single 1.0 expanded with stride 0
        if dy.stride(1) != 1:
            dy = dy.contiguous()
        n_rows, n_cols = y.shape
        dx = torch.empty_like(y)
        kernel = (
            softmax_backward_kernel if n_cols <= BACKWARD_LIMIT else softmax_long_backward_kernel
        )
        block_size, num_warps = launch_sizes(y, BACKWARD_LIMIT)
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
        # END SOLUTION


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis, differentiable.

    Args:
        x: Shape (M, N), N >= 1; float32, float16 or bfloat16. Any strides. Elements may be -inf, but
            never all of a row.

    Returns:
        A new contiguous tensor of the shape and dtype of x; every row sums to 1.

    A row of up to 4096 elements must be read once: forward reads MN elements and writes MN,
    backward reads 2MN and writes MN. A longer row may be read twice.
    """
    return Softmax.apply(x)
