"""relu(a @ b) in Triton, forward and backward.

One program computes one BLOCK_M x BLOCK_N tile of the result. It walks along K, loads a pair of
tiles of a and b in each step, multiplies them on the tensor cores and adds to an accumulator that
stays in registers. A tile's element (i, j) lies at i * row_stride + j * col_stride, so passing
both strides makes the kernel work for any layout, transposed ones too.
"""

import torch
import triton
import triton.language as tl

# from this many rows and columns on, large tiles still give every multiprocessor several programs
LARGE = 2048


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
    GROUP_M: tl.constexpr,  # rows of tiles computed together, see below
):
    # Programs that run at the same time should share rows of a and columns of b, so that these
    # come from the L2 cache: go down GROUP_M tiles before moving one tile to the right.
    # Hint: tl.dot(a_tile, b_tile, acc, input_precision=INPUT_PRECISION) adds to acc (float32).
    # BEGIN SOLUTION
    pid = tl.program_id(axis=0)
    n_tiles_m = tl.cdiv(M, BLOCK_M)
    n_tiles_n = tl.cdiv(N, BLOCK_N)
    tiles_per_group = GROUP_M * n_tiles_n
    first_tile_m = (pid // tiles_per_group) * GROUP_M
    # the last group may be smaller
    group_size = min(n_tiles_m - first_tile_m, GROUP_M)
    tile_m = first_tile_m + (pid % tiles_per_group) % group_size
    tile_n = (pid % tiles_per_group) // group_size

    # int64, because row * stride passes 2**31 for large matrices
    rows = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)  # [BLOCK_N]
    ks = tl.arange(0, BLOCK_K)  # [BLOCK_K]
    row_mask = rows[:, None] < M
    col_mask = cols[None, :] < N
    a_ptrs = a_ptr + rows[:, None] * a_row_stride + ks[None, :] * a_col_stride
    b_ptrs = b_ptr + ks[:, None] * b_row_stride + cols[None, :] * b_col_stride
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        # zeros beyond K add nothing to the products
        a = tl.load(a_ptrs, mask=row_mask & (ks[None, :] < K - k), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K - k) & col_mask, other=0.0)
        acc = tl.dot(a, b, acc, input_precision=INPUT_PRECISION)
        a_ptrs += BLOCK_K * a_col_stride
        b_ptrs += BLOCK_K * b_row_stride
    if RELU:
        acc = tl.maximum(acc, 0.0)
    c_ptrs = c_ptr + rows[:, None] * c_row_stride + cols[None, :] * c_col_stride
    tl.store(c_ptrs, acc, mask=row_mask & col_mask)
    # END SOLUTION


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
    # BEGIN SOLUTION
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.program_id(axis=1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = cols < N
    y = tl.load(y_ptr + row * y_row_stride + cols, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + row * dy_row_stride + cols * dy_col_stride, mask=mask, other=0.0)
    tl.store(g_ptr + row * g_row_stride + cols, tl.where(y > 0, dy, 0.0), mask=mask)
    # END SOLUTION


def matmul(a, b, *, relu):
    """Launch matmul_kernel: (M, K) times (K, N), any strides, to a new contiguous (M, N)."""
    # torch.get_float32_matmul_precision() is "highest" where TF32 is not allowed.
    # BEGIN SOLUTION
    n_rows, n_inner = a.shape
    n_cols = b.shape[1]
    c = torch.empty((n_rows, n_cols), dtype=a.dtype, device=a.device)
    highest = torch.get_float32_matmul_precision() == "highest"
    # a large tile reuses what it reads more often, a small one wastes less of a small matrix
    if a.dtype != torch.float32 and min(n_rows, n_cols) >= LARGE:
        tile = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
    else:
        # without tensor cores a longer step of the loop has more values than registers
        tile = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 16 if highest else 32, "num_warps": 4}
        # left to itself ptxas aims at 96 registers on an A100 and spills two of float32
        tile |= {"num_stages": 3, "maxnreg": 255}
    grid = (triton.cdiv(n_rows, tile["BLOCK_M"]) * triton.cdiv(n_cols, tile["BLOCK_N"]),)
    matmul_kernel[grid](
        a,
        b,
        c,
        n_rows,
        n_cols,
        n_inner,
        a.stride(0),
        a.stride(1),
        b.stride(0),
        b.stride(1),
        c.stride(0),
        c.stride(1),
        RELU=relu,
        INPUT_PRECISION="ieee" if highest else "tf32",
        GROUP_M=8,
        **tile,
    )
    return c
    # END SOLUTION


class MatmulReLU(torch.autograd.Function):
    """Connects the kernels to autograd."""

    @staticmethod
    def forward(ctx, a, b):
        """Compute relu(a @ b) and save what the backward needs."""
        # BEGIN SOLUTION
        y = matmul(a, b, relu=True)
        # y > 0 says where the ReLU let the gradient pass
        ctx.save_for_backward(a, b, y)
        return y
        # END SOLUTION

    @staticmethod
    def backward(ctx, dy):
        """Return the gradients for a and b."""
        # With g = dy where y > 0, else 0:  da = g @ b.T  and  db = a.T @ g.
        # b.T is the same storage with its strides swapped: nothing is copied.
        # BEGIN SOLUTION
        a, b, y = ctx.saved_tensors
        n_rows, n_cols = y.shape
        g = torch.empty_like(y)
        grid = (n_rows, triton.cdiv(n_cols, 1024))
        relu_backward_kernel[grid](
            y,
            dy,
            g,
            n_cols,
            y.stride(0),
            dy.stride(0),
            dy.stride(1),
            g.stride(0),
            BLOCK_N=1024,
        )
        return matmul(g, b.T, relu=False), matmul(a.T, g, relu=False)
        # END SOLUTION


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
