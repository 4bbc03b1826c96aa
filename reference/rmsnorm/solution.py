"""RMSNorm in Triton, forward and backward.

    y_j = x_j r w_j      r = 1 / sqrt(mean(x^2) + eps)      for each row

Forward: one program a row. Backward: the gradient of w sums over all rows. If every program added
to it with a load and a store, two programs could read the same old value and one contribution
would be lost: a race. So each program takes several rows, adds them up in registers and writes
one partial sum to a row of its own; the few partial sums are added at the end.
"""

import torch
import triton
import triton.language as tl

# programs of the backward: enough to fill a GPU several times over, few enough that adding up
# their partial sums costs next to nothing
MAX_PROGRAMS = 1024
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
    BLOCK_SIZE: tl.constexpr,  # a power of two, at least N
):
    # Compute in float32. The masked lanes must not add to the sum, and the mean divides by n_cols.
    # BEGIN SOLUTION
    # int64, because row * stride passes 2**31 for large matrices
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)  # [BLOCK_SIZE]
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = 1 / tl.sqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    tl.store(y_ptr + row * y_row_stride + cols, x * rstd * weight, mask=mask)
    # END SOLUTION


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
    rows_per_program,
    BLOCK_SIZE: tl.constexpr,
):
    # dx_j = dy_j w_j r - x_j r^3 mean_i(dy_i w_i x_i)     for each row
    # dw_j = sum over rows of dy_j x_j r
    # BEGIN SOLUTION
    pid = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    dweight = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    first = pid * rows_per_program
    # the last program may have fewer rows
    for row_index in range(first, min(first + rows_per_program, n_rows)):
        row = tl.cast(row_index, tl.int64)
        x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * dy_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        x_hat = x * rstd
        dy_weight = dy * weight
        mean = tl.sum(dy_weight * x_hat, axis=0) / n_cols
        dx = (dy_weight - x_hat * mean) * rstd
        tl.store(dx_ptr + row * dx_row_stride + cols, dx, mask=mask)
        # in registers: no other program sees it
        dweight += dy * x_hat
    tl.store(partial_ptr + pid * partial_row_stride + cols, dweight, mask=mask)
    # END SOLUTION


def launch_sizes(n_cols):
    """Choose BLOCK_SIZE and num_warps for a row of n_cols elements."""
    # BEGIN SOLUTION
    block_size = triton.next_power_of_2(n_cols)
    # 512 elements a warp are 16 a thread: they stay in registers
    return block_size, min(max(block_size // 512, 1), 16)
    # END SOLUTION


class RMSNorm(torch.autograd.Function):
    """Connects the two kernels to autograd."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        """Compute RMSNorm over the rows and save what the backward needs."""
        # The row stride of x may be anything (padded rows, a repeated row); pass it to the kernel.
        # If the last axis is not contiguous (stride other than 1), copy: x.contiguous().
        # BEGIN SOLUTION
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
        # one number a row spares the backward a pass over x
        ctx.save_for_backward(x, weight, rstd)
        return y
        # END SOLUTION

    @staticmethod
    def backward(ctx, dy):
        """Return the gradients for x, weight and eps; eps has none, so None."""
        # dy may have any strides, 0 included.
        # BEGIN SOLUTION
        x, weight, rstd = ctx.saved_tensors
        # y.sum().backward() sends a single 1.0 expanded with stride 0
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
        # END SOLUTION


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm over the last axis, differentiable with respect to x and weight.

    Args:
        x: Shape (M, N), 1 <= N <= 16384; float32, float16 or bfloat16. Any strides.
        weight: Shape (N,), dtype of x. Any stride.
        eps: Added to the mean of the squares, under the root.

    Returns:
        x / sqrt(mean(x^2) + eps) * weight, a new contiguous tensor of the shape and dtype of x.

    A row must be read once: forward reads x and, for every row, weight; it writes y and one number
    a row. The gradients must not depend on the order in which programs run.
    """
    return RMSNorm.apply(x, weight, eps)
