"""RMSNorm in Triton, forward and backward.

    y_j = x_j r w_j      r = 1 / sqrt(mean(x^2) + eps)      for each row

Forward: one program a row. Backward: the gradient of w sums over all rows. If every program added
to it with a load and a store, two programs could read the same old value and one contribution
would be lost: a race. So each program takes several rows, adds them up in registers and writes
one partial sum to a row of its own; the few partial sums are added at the end.

A row stays in registers from the sum of its squares to its result, unless it is longer than a block:
then both kernels go over it twice, block by block.
"""

import torch
import triton
import triton.language as tl

# longer rows are taken in blocks of this many elements
MAX_BLOCK = 8192
# bytes of a row that a multiprocessor works on at a time in backward: it takes several short rows
BYTES_PER_MULTIPROCESSOR = 16384
# few rows give few programs, and there is less to add up at the end
MIN_ROWS_PER_PROGRAM = 4


@triton.jit
def rmsnorm_forward_kernel(
    x_ptr,  # (M, N)
    weight_ptr,  # (N,)
    y_ptr,  # (M, N)
    rstd_ptr,  # (M,) float32, r of each row, for the backward
    x_row_stride,  # elements from one row of x to the next
    y_row_stride,  # likewise for y
    n_cols,  # N
    eps,
    BLOCK_SIZE: tl.constexpr,  # a power of two
    ONE_BLOCK: tl.constexpr,  # whether a row fits into a block
):
    # Compute in float32. The masked lanes must not add to the sum, and the mean divides by n_cols.
    # Hint: write the case of one block first.
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement rmsnorm_forward_kernel")


@triton.jit
def rmsnorm_backward_kernel(
    x_ptr,  # (M, N)
    weight_ptr,  # (N,)
    dy_ptr,  # (M, N), the incoming gradient
    rstd_ptr,  # (M,) float32, from the forward
    dx_ptr,  # (M, N)
    partial_ptr,  # (number of programs, N) float32, each program's part of the weight's gradient
    x_row_stride,
    dy_row_stride,
    dx_row_stride,
    partial_row_stride,
    n_rows,  # M
    n_cols,  # N
    BLOCK_SIZE: tl.constexpr,
    ONE_BLOCK: tl.constexpr,
):
    # dx_j = dy_j w_j r - x_j r^3 mean_i(dy_i w_i x_i)     for each row
    # dw_j = sum over rows of dy_j x_j r
    # Hint: num_stages=3 in tl.range loads the next rows while this one is computed.
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement rmsnorm_backward_kernel")


def block_of(matrix):
    """Choose BLOCK_SIZE and ONE_BLOCK for the rows of a matrix; also the bytes of a block."""
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement block_of")


def warps(n_bytes, bytes_per_warp):
    """Choose num_warps for a block: a power of two from 1 to 16."""
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement warps")


class RMSNorm(torch.autograd.Function):
    """Connects the two kernels to autograd."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        """Compute RMSNorm over the rows and save what the backward needs."""
        # The row stride of x may be anything (padded rows, a repeated row); pass it to the kernel.
        # If the last axis is not contiguous (stride other than 1), copy: x.contiguous().
        # TODO: your code here, instead of the next line
        raise NotImplementedError("TODO: implement RMSNorm.forward")

    @staticmethod
    def backward(ctx, dy):
        """Return the gradients for x, weight and eps; eps has none, so None."""
        # dy may have any strides, 0 included.
        # TODO: your code here, instead of the next line
        raise NotImplementedError("TODO: implement RMSNorm.backward")


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm over the last axis, differentiable with respect to x and weight.

    Args:
        x: Shape (M, N); float32, float16 or bfloat16. Any strides.
        weight: Shape (N,), dtype of x. Any stride.
        eps: Added to the mean of the squares, under the root.

    Returns:
        x / sqrt(mean(x^2) + eps) * weight, a new contiguous tensor of the shape and dtype of x.

    A row of up to 4096 elements must be read once: forward reads x and, for every row, weight; it
    writes y and one number a row. A longer row may be read twice. The gradients must not depend on
    the order in which programs run.
    """
    return RMSNorm.apply(x, weight, eps)
