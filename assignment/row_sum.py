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
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement row_sum_kernel")


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
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement row_sum")
