"""The square of every element in Triton, with the launch parameter to play with."""

import torch
import triton
import triton.language as tl


@triton.jit
def square_kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, x * x, mask=mask)


def square(x: torch.Tensor, block_size: int) -> torch.Tensor:
    """Square a contiguous tensor of any shape, ``block_size`` elements a program."""
    y = torch.empty_like(x)
    n_elements = x.numel()
    grid = (triton.cdiv(n_elements, block_size),)
    square_kernel[grid](x, y, n_elements, BLOCK_SIZE=block_size)
    return y
