"""SiLU in Triton, forward and backward.

    silu(x) = x s(x)      s(x) = 1 / (1 + exp(-x))

A tensor of any shape is one long vector to a kernel that treats every element alike. One program
handles one block of it: it reads the block once, computes in registers and writes once.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def silu_forward_kernel(
    x_ptr,  # pointer to the first element of x
    y_ptr,  # pointer to the first element of the result
    n_elements,  # number of elements, all rows together
    BLOCK_SIZE: tl.constexpr,  # elements one program handles, a power of two
):
    # Compute in float32 whatever the dtype of x: x.to(tl.float32). tl.store converts back.
    # tl.sigmoid exists. If you write it with tl.exp: what is exp(x) / (1 + exp(x)) for x = 100?
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement silu_forward_kernel")


@triton.jit
def silu_backward_kernel(
    x_ptr,  # pointer to the first element of x
    dy_ptr,  # pointer to the first element of the incoming gradient
    dx_ptr,  # pointer to the first element of the result
    n_elements,
    BLOCK_SIZE: tl.constexpr,
):
    # dx = dy * silu'(x), and s' = s (1 - s). Compute s again from x: to save it in the forward would
    # cost a write and a read of the whole tensor, a sigmoid costs next to nothing.
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement silu_backward_kernel")


def launch_size(x):
    """Choose BLOCK_SIZE for the elements of x."""
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement launch_size")


class SiLU(torch.autograd.Function):
    """Connects the two kernels to autograd."""

    @staticmethod
    def forward(ctx, x):
        """Compute silu(x) and save what the backward needs."""
        # x may have any strides; ctx.save_for_backward(tensor, ...) keeps tensors for backward.
        # TODO: your code here, instead of the next line
        raise NotImplementedError("TODO: implement SiLU.forward")

    @staticmethod
    def backward(ctx, dy):
        """Return the gradient for each argument of forward, here x alone."""
        # The saved tensors are in ctx.saved_tensors. dy may have any strides, 0 included.
        # TODO: your code here, instead of the next line
        raise NotImplementedError("TODO: implement SiLU.backward")


def silu(x: torch.Tensor) -> torch.Tensor:
    """SiLU, differentiable.

    Args:
        x: Shape (M, N); float32, float16 or bfloat16. Any strides.

    Returns:
        A new tensor of the shape and dtype of x.

    Forward reads MN elements and writes MN; backward reads 2MN and writes MN.
    """
    return SiLU.apply(x)
