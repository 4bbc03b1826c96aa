"""Vector addition in Triton.

A Triton kernel describes what ONE program does to ONE block of data. The launch starts many
programs, and each one asks for its number to know which block is its own.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def vector_add_kernel(
    x_ptr,  # *pointer* to the first element of x
    y_ptr,  # pointer to the first element of y
    out_ptr,  # pointer to the first element of the result
    n_elements,  # length of the three vectors
    BLOCK_SIZE: tl.constexpr,  # elements one program adds, a power of two
):
    # Program 0 adds elements 0 .. BLOCK_SIZE-1, program 1 the next BLOCK_SIZE, and so on.
    # tl.program_id(axis=0) is this program's number, tl.arange(0, BLOCK_SIZE) a block of 0, 1, 2, ...
    # tl.load(ptr + offsets, mask=..., other=...) reads a block, tl.store(ptr + offsets, block, mask=...)
    # writes one, both where the mask is true.
    # n_elements need not be a multiple of BLOCK_SIZE: what must the last program not touch?
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement vector_add_kernel")


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Add two vectors.

    Args:
        x: Shape (n,), n >= 1; float32, float16 or bfloat16. Any stride: it may be expanded.
        y: Shape and dtype of x.

    Returns:
        x + y, a new contiguous tensor of the same shape and dtype.

    The kernel must read 2n elements and write n: nothing twice.
    """
    # A kernel walks through memory and knows no strides: x.contiguous() copies a vector with gaps.
    # Allocate the output, choose a BLOCK_SIZE, and launch one program per block:
    #     vector_add_kernel[grid](..., BLOCK_SIZE=...)   with grid = (number of programs,)
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement vector_add")
