"""The backward is PyTorch's: its values are right, and no kernel of one's own computes them."""

import torch
import triton
import triton.language as tl

EXPECTED_VERDICT = "foreign_kernel"
EXPECTED_GROUP = "memory"
EXPECTED_CASES = None

BLOCK_SIZE = 1024


@triton.jit
def silu_forward_kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + offsets, x * tl.sigmoid(x), mask=mask)


class SiLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        n_elements = x.numel()
        grid = (triton.cdiv(n_elements, BLOCK_SIZE),)
        silu_forward_kernel[grid](x, y, n_elements, BLOCK_SIZE=BLOCK_SIZE)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x.float())
        return (dy * (s + x * s * (1 - s))).to(x.dtype)


def silu(x):
    return SiLU.apply(x)
