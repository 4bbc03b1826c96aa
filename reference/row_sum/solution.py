"""Sums of rows in Triton: a loop inside the program.

One program handles one row, which may be longer than a block. It walks along the row, adds block after
block to BLOCK_SIZE partial sums, one for each lane, and adds these up once, after the loop.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(
    x_ptr,  # (M, N)
    out_ptr,  # (M,)
    x_row_stride,  # elements from one row of x to the next
    n_cols,  # N
    BLOCK_SIZE: tl.constexpr,  # elements of a row read at a time, a power of two
):
    # A loop may run to a number known only at run time: for start in range(0, n_cols, BLOCK_SIZE).
    # Which dtype must the partial sums have? What must a masked lane add?
    # BEGIN SOLUTION
    # int64, because row * stride passes 2**31 for large matrices
    row = tl.program_id(axis=0).to(tl.int64)
    # float32 whatever x is: in bfloat16 256 + 1 is 256
    partial = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    # num_stages: while one block is added, the next two are on their way. In bfloat16 that saves a
    # tenth on an H200
    for start in tl.range(0, n_cols, BLOCK_SIZE, num_stages=3):
        cols = start + tl.arange(0, BLOCK_SIZE)
        # 0 beyond the end of the row adds nothing
        x = tl.load(x_ptr + row * x_row_stride + cols, mask=cols < n_cols, other=0.0)
        partial += x.to(tl.float32)
    # one reduction a row, outside the loop: inside, the threads would wait for each other every turn
    tl.store(out_ptr + row, tl.sum(partial, axis=0))
    # END SOLUTION


def row_sum(x: torch.Tensor) -> torch.Tensor:
    """Sum each row of a matrix.

    Args:
        x: Shape (M, N), N >= 1; float32, float16 or bfloat16. Any strides.

    Returns:
        A new tensor of shape (M,) and the dtype of x, rounded once, at the end.

    The kernel must read MN elements and write M: nothing twice.
    """
    # Allocate the output, choose a BLOCK_SIZE that does not depend on N, and launch one program a row.
    # The row stride may be anything (padded rows, a repeated row), so pass it to the kernel.
    # If the last axis is not contiguous (x.stride(1) != 1), copy: x.contiguous().
    # BEGIN SOLUTION
    if x.stride(1) != 1:
        x = x.contiguous()
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=x.dtype, device=x.device)
    # a block no longer than the row needs
    block_size = min(triton.next_power_of_2(n_cols), 2048)
    row_sum_kernel[(n_rows,)](x, out, x.stride(0), n_cols, BLOCK_SIZE=block_size)
    return out
    # END SOLUTION
