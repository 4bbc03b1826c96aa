"""relu(a @ b) in Triton, forward and backward.

One program computes BLOCK_M x BLOCK_N tiles of the result. It walks along K, loads a pair of tiles
of a and b in each step, multiplies them on the tensor cores and adds to an accumulator that stays
in registers.

Two kernels do this. matmul_kernel computes the address of every element: (i, j) lies at
i * row_stride + j * col_stride, so it works for any layout, transposed ones too.
matmul_descriptor_kernel is faster and works for most layouts: it lets the GPU fetch whole tiles.
"""

import torch
import triton
import triton.language as tl

# from this many rows and columns on, large tiles still give every multiprocessor one
LARGE = 2048


@triton.jit
def tile_position(
    index,  # which tile, counted from 0
    M,
    N,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    GROUP_M: tl.constexpr,  # rows of tiles computed together
):
    # Returns the tile's row and column, counted in tiles. Programs that run at the same time should
    # share rows of a and columns of b, so that these come from the L2 cache: go down GROUP_M tiles
    # before moving one tile to the right.
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement tile_position")


@triton.jit
def matmul_kernel(
    a_ptr,  # (M, K)
    b_ptr,  # (K, N)
    c_ptr,  # (M, N)
    M,
    N,
    K,
    a_row_stride,  # elements from one row of a to the next
    a_col_stride,  # elements from one column of a to the next
    b_row_stride,
    b_col_stride,
    c_row_stride,
    c_col_stride,
    RELU: tl.constexpr,  # apply max(c, 0) before writing
    INPUT_PRECISION: tl.constexpr,  # "tf32" or "ieee", matters for float32 only
    BLOCK_M: tl.constexpr,  # tile sizes, powers of two, at least 16
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    # One program, one tile.
    # Hint: tl.dot(a_tile, b_tile, acc, input_precision=INPUT_PRECISION) adds to acc (float32).
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement matmul_kernel")


@triton.jit
def matmul_descriptor_kernel(
    a_ptr,  # (M, K), stored row by row, or column by column if A_BY_COLUMNS
    b_ptr,  # (K, N), likewise
    c_ptr,  # (M, N), contiguous
    M,
    N,
    K,
    a_stride,  # elements from one row (or column) of a to the next
    b_stride,
    A_BY_COLUMNS: tl.constexpr,
    B_BY_COLUMNS: tl.constexpr,
    RELU: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    # Not needed for right results, but for the last points of speed. A descriptor says where a
    # matrix lies; with it one instruction of a Hopper GPU fetches a tile, and zeros for what lies
    # outside: no pointers, no masks, and registers free for larger tiles.
    # Hint: d = tl.make_tensor_descriptor(ptr, shape, strides, block_shape); tile = d.load([i, j]).
    # The last stride must be 1, so describe a matrix that is stored by columns as its transpose.
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement matmul_descriptor_kernel")


@triton.jit
def relu_backward_kernel(
    y_ptr,  # (M, N), the forward's result
    dy_ptr,  # (M, N), the incoming gradient
    g_ptr,  # (M, N), the gradient before the ReLU
    N,
    y_row_stride,
    dy_row_stride,
    dy_col_stride,
    g_row_stride,
    BLOCK_N: tl.constexpr,
):
    # g = dy where y > 0, else 0
    # TODO: your code here, instead of the next line
    tl.static_assert(False, "TODO: implement relu_backward_kernel")


def can_describe(matrix):
    """Whether matmul_descriptor_kernel can read this matrix; needed for that kernel alone."""
    # One axis must be contiguous. The rows (or columns) must start at multiples of 16 bytes and
    # may not overlap.
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement can_describe")


def matmul(a, b, *, relu):
    """Multiply (M, K) by (K, N), any strides, into a new contiguous (M, N)."""
    # torch.get_float32_matmul_precision() is "highest" where TF32 is not allowed.
    # Descriptors need some memory: triton.set_allocator(function of size, alignment, stream), in
    # the same thread; autograd runs backward in another one than forward.
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement matmul")


class MatmulReLU(torch.autograd.Function):
    """Connects the kernels to autograd."""

    @staticmethod
    def forward(ctx, a, b):
        """Compute relu(a @ b) and save what the backward needs."""
        # TODO: your code here, instead of the next line
        raise NotImplementedError("TODO: implement MatmulReLU.forward")

    @staticmethod
    def backward(ctx, dy):
        """Return the gradients for a and b."""
        # With g = dy where y > 0, else 0:  da = g @ b.T  and  db = a.T @ g.
        # b.T is the same storage with its strides swapped: nothing is copied.
        # TODO: your code here, instead of the next line
        raise NotImplementedError("TODO: implement MatmulReLU.backward")


def matmul_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """relu(a @ b), differentiable.

    Args:
        a: Shape (M, K); float32, float16 or bfloat16. Any strides.
        b: Shape (K, N), dtype of a. Any strides.

    Returns:
        A new contiguous tensor of shape (M, N) and the dtype of a. Products are accumulated in
        float32. float32 inputs may be rounded to TF32, except where
        torch.get_float32_matmul_precision() is "highest".
    """
    return MatmulReLU.apply(a, b)
