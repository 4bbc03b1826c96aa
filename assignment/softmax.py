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
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement softmax_forward_kernel")


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
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement softmax_long_forward_kernel")


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
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement softmax_backward_kernel")


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
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement softmax_long_backward_kernel")


def launch_sizes(x, limit):
    """Choose BLOCK_SIZE and num_warps for the rows of x, in one block up to a length of limit."""
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement launch_sizes")


class Softmax(torch.autograd.Function):
    """Connects the kernels to autograd."""

    @staticmethod
    def forward(ctx, x):
        """Compute softmax over the rows and save what the backward needs."""
        # The row stride may be anything (padded rows, a repeated row), so pass it to the kernel.
        # If the last axis is not contiguous (x.stride(1) != 1), copy: x.contiguous().
        # More elements in a block need more warps: kernel[grid](..., num_warps=8).
        # TODO: your code here, instead of the next line
        raise NotImplementedError("TODO: implement Softmax.forward")

    @staticmethod
    def backward(ctx, dy):
        """Return the gradient for each argument of forward, here x alone."""
        # dy may have any strides, 0 included.
        # TODO: your code here, instead of the next line
        raise NotImplementedError("TODO: implement Softmax.backward")


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
