"""Saves the sigmoid in the forward instead of computing it again: right, and more traffic."""

import torch
import triton
import triton.language as tl

EXPECTED_VERDICT = "excess_traffic"
EXPECTED_GROUP = "memory"
EXPECTED_CASES = None


@triton.jit
def gelu_forward_kernel(x_ptr, y_ptr, s_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0).to(tl.int64)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    a = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    s = tl.sigmoid(2 * a)
    tl.store(s_ptr + offsets, s, mask=mask)
    tl.store(y_ptr + offsets, x * s, mask=mask)


@triton.jit
def gelu_backward_kernel(x_ptr, s_ptr, dy_ptr, dx_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0).to(tl.int64)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    dy = tl.load(dy_ptr + offsets, mask=mask).to(tl.float32)
    s = tl.load(s_ptr + offsets, mask=mask)
    da = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x)
    dx = dy * (s + x * s * (1 - s) * 2 * da)
    tl.store(dx_ptr + offsets, dx, mask=mask)


class GELU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        n_elements = x.numel()
        grid = (triton.cdiv(n_elements, 1024),)
        s = torch.empty(x.shape, dtype=torch.float32, device=x.device)
        gelu_forward_kernel[grid](x, y, s, n_elements, BLOCK_SIZE=1024)
        ctx.save_for_backward(x, s)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, s = ctx.saved_tensors
        dy = dy.contiguous()
        dx = torch.empty_like(x)
        n_elements = x.numel()
        grid = (triton.cdiv(n_elements, 1024),)
        gelu_backward_kernel[grid](x, s, dy, dx, n_elements, BLOCK_SIZE=1024)
        return dx


def gelu(x: torch.Tensor) -> torch.Tensor:
    return GELU.apply(x)
