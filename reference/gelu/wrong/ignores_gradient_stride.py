"""Copies the gradient only where it is a single 1.0: reads the padding between the rows of others."""

import torch
import triton
import triton.language as tl

EXPECTED_VERDICT = "non_finite"
EXPECTED_GROUP = "backward"
EXPECTED_CASES = None


@triton.jit
def gelu_forward_kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0).to(tl.int64)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    a = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    tl.store(y_ptr + offsets, x * tl.sigmoid(2 * a), mask=mask)


@triton.jit
def gelu_backward_kernel(x_ptr, dy_ptr, dx_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0).to(tl.int64)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    dy = tl.load(dy_ptr + offsets, mask=mask).to(tl.float32)
    a = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    s = tl.sigmoid(2 * a)
    da = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x)
    dx = dy * (s + x * s * (1 - s) * 2 * da)
    tl.store(dx_ptr + offsets, dx, mask=mask)


def launch_size(x):
    return 128 * 16 // x.element_size()


class GELU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        n_elements = x.numel()
        block_size = launch_size(x)
        grid = (triton.cdiv(n_elements, block_size),)
        gelu_forward_kernel[grid](x, y, n_elements, BLOCK_SIZE=block_size)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        if 0 in dy.stride():
            dy = dy.contiguous()
        dx = torch.empty_like(x)
        n_elements = x.numel()
        block_size = launch_size(x)
        grid = (triton.cdiv(n_elements, block_size),)
        gelu_backward_kernel[grid](x, dy, dx, n_elements, BLOCK_SIZE=block_size)
        return dx


def gelu(x: torch.Tensor) -> torch.Tensor:
    return GELU.apply(x)
