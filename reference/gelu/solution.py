"""GELU (tanh form) in Triton, forward and backward.

    gelu(x) = x/2 (1 + tanh(a))      a = sqrt(2/pi) (x + 0.044715 x^3)

Everything between reading x and writing y stays in registers: one read, one write.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_forward_kernel(
    x_ptr,  # pointer to the first element of x
    y_ptr,  # pointer to the first element of the result
    n_elements,  # number of elements, all rows together
    BLOCK_SIZE: tl.constexpr,  # elements one program handles, a power of two
):
    # Compute in float32 whatever the dtype of x: x.to(tl.float32). tl.store converts back.
    # There is no tl.tanh. Hint: (1 + tanh(a)) / 2 is the sigmoid of 2a, and tl.sigmoid exists.
    # BEGIN SOLUTION
    pid = tl.program_id(axis=0).to(tl.int64)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    # evict_last keeps in the L2 cache what was read rather than what was written: nobody reads it
    # again, but 16384 x 8192 float32 take 0.251 instead of 0.253 ms on an H200
    x = tl.load(x_ptr + offsets, mask=mask, eviction_policy="evict_last").to(tl.float32)
    # sqrt(2/pi) = 0.7978845608028654
    a = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    # no overflow for large |x|: the sigmoid saturates at 0 and 1
    tl.store(y_ptr + offsets, x * tl.sigmoid(2 * a), mask=mask)
    # END SOLUTION


@triton.jit
def gelu_backward_kernel(
    x_ptr,  # pointer to the first element of x
    dy_ptr,  # pointer to the first element of the incoming gradient
    dx_ptr,  # pointer to the first element of the result
    n_elements,
    BLOCK_SIZE: tl.constexpr,
):
    # dx = dy * gelu'(x). Compute a and the sigmoid again instead of saving them in the forward:
    # arithmetic is cheaper here than memory.
    # BEGIN SOLUTION
    pid = tl.program_id(axis=0).to(tl.int64)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    dy = tl.load(dy_ptr + offsets, mask=mask).to(tl.float32)
    a = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    s = tl.sigmoid(2 * a)
    # y = x s(2a), so y' = s + x s (1 - s) 2a'
    da = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x)
    dx = dy * (s + x * s * (1 - s) * 2 * da)
    tl.store(dx_ptr + offsets, dx, mask=mask)
    # END SOLUTION


def launch_size(x):
    """Choose BLOCK_SIZE for the elements of x."""
    # BEGIN SOLUTION
    # 2 KB: one load of 16 bytes for each of a program's 128 threads. On an H200 4 KB take 1 % longer in
    # float32, and 1 KB takes 25 % longer: there are too many programs
    return 128 * 16 // x.element_size()
    # END SOLUTION


class GELU(torch.autograd.Function):
    """Connects the two kernels to autograd."""

    @staticmethod
    def forward(ctx, x):
        """Compute gelu(x) and save what the backward needs."""
        # x may have any strides; ctx.save_for_backward(tensor, ...) keeps tensors for backward.
        # BEGIN SOLUTION
        # the kernel walks through memory element by element; this copies only if it must
        x = x.contiguous()
        y = torch.empty_like(x)
        n_elements = x.numel()
        block_size = launch_size(x)
        grid = (triton.cdiv(n_elements, block_size),)
        gelu_forward_kernel[grid](x, y, n_elements, BLOCK_SIZE=block_size)
        ctx.save_for_backward(x)
        return y
        # END SOLUTION

    @staticmethod
    def backward(ctx, dy):
        """Return the gradient for each argument of forward, here x alone."""
        # The saved tensors are in ctx.saved_tensors. dy may have any strides, 0 included.
        # BEGIN SOLUTION
        (x,) = ctx.saved_tensors
        # y.sum().backward() sends a single 1.0 expanded with stride 0
        dy = dy.contiguous()
        dx = torch.empty_like(x)
        n_elements = x.numel()
        block_size = launch_size(x)
        grid = (triton.cdiv(n_elements, block_size),)
        gelu_backward_kernel[grid](x, dy, dx, n_elements, BLOCK_SIZE=block_size)
        return dx
        # END SOLUTION


def gelu(x: torch.Tensor) -> torch.Tensor:
    """GELU, tanh form, differentiable.

    Args:
        x: Shape (M, N); float32, float16 or bfloat16. Any strides.

    Returns:
        A new tensor of the shape and dtype of x.

    Forward reads MN elements and writes MN; backward reads 2MN and writes MN.
    """
    return GELU.apply(x)
