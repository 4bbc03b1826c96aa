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
    # BEGIN SOLUTION
    n_tiles_m = tl.cdiv(M, BLOCK_M)
    n_tiles_n = tl.cdiv(N, BLOCK_N)
    tiles_per_group = GROUP_M * n_tiles_n
    first_tile_m = (index // tiles_per_group) * GROUP_M
    # the last group may be smaller
    group_size = min(n_tiles_m - first_tile_m, GROUP_M)
    tile_m = first_tile_m + (index % tiles_per_group) % group_size
    tile_n = (index % tiles_per_group) // group_size
    return tile_m, tile_n
    # END SOLUTION


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
    # BEGIN SOLUTION
    pid = tl.program_id(axis=0)
    tile_m, tile_n = tile_position(pid, M, N, BLOCK_M, BLOCK_N, GROUP_M)
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
    # BEGIN SOLUTION
    if A_BY_COLUMNS:
        a_desc = tl.make_tensor_descriptor(a_ptr, [K, M], [a_stride, 1], [BLOCK_K, BLOCK_M])
    else:
        a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [a_stride, 1], [BLOCK_M, BLOCK_K])
    if B_BY_COLUMNS:
        b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [b_stride, 1], [BLOCK_N, BLOCK_K])
    else:
        b_desc = tl.make_tensor_descriptor(b_ptr, [K, N], [b_stride, 1], [BLOCK_K, BLOCK_N])
    n_tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    # one program a multiprocessor takes tile after tile; flatten makes one loop of the two, so that
    # the next tile's first loads run while the present one is written: 0.175 instead of 0.178 ms
    # for 4096 x 4096 x 4096 in bfloat16, b by columns, on an H200; matmul_kernel takes 0.25 ms
    for index in tl.range(tl.program_id(0), n_tiles, tl.num_programs(0), flatten=True):
        tile_m, tile_n = tile_position(index, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        row = tile_m * BLOCK_M
        col = tile_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            a = a_desc.load([k, row]).T if A_BY_COLUMNS else a_desc.load([row, k])
            b = b_desc.load([col, k]).T if B_BY_COLUMNS else b_desc.load([k, col])
            acc = tl.dot(a, b, acc)
        if RELU:
            acc = tl.maximum(acc, 0.0)
        rows = row.to(tl.int64) + tl.arange(0, BLOCK_M)
        cols = col + tl.arange(0, BLOCK_N)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc, mask=mask)
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


def can_describe(matrix):
    """Whether matmul_descriptor_kernel can read this matrix; needed for that kernel alone."""
    # One axis must be contiguous. The rows (or columns) must start at multiples of 16 bytes and
    # may not overlap.
    # BEGIN SOLUTION
    row_stride, col_stride = matrix.stride()
    if col_stride == 1:
        length, step = matrix.shape[1], row_stride
    elif row_stride == 1:
        length, step = matrix.shape[0], col_stride
    else:
        return False
    aligned = matrix.data_ptr() % 16 == 0 and step * matrix.element_size() % 16 == 0
    # the tensor cores take tiles of 4-byte numbers in one orientation only: nothing to gain there
    return aligned and step >= length and matrix.dtype != torch.float32
    # END SOLUTION


def matmul(a, b, *, relu):
    """Multiply (M, K) by (K, N), any strides, into a new contiguous (M, N)."""
    # torch.get_float32_matmul_precision() is "highest" where TF32 is not allowed.
    # Descriptors need some memory: triton.set_allocator(function of size, alignment, stream), in
    # the same thread; autograd runs backward in another one than forward.
    # BEGIN SOLUTION
    (n_rows, n_inner), n_cols = a.shape, b.shape[1]
    c = torch.empty((n_rows, n_cols), dtype=a.dtype, device=a.device)
    highest = torch.get_float32_matmul_precision() == "highest"
    # a large tile reuses what it reads more often, a small one wastes less of a small matrix
    if a.dtype != torch.float32 and min(n_rows, n_cols) >= LARGE:
        tile = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 4}
    else:
        # without tensor cores a longer step of the loop has more values than registers
        tile = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 16 if highest else 32, "num_warps": 4}
        # left to itself ptxas aims at 96 registers on an A100 and spills two of float32
        tile |= {"num_stages": 3, "maxnreg": 255}
    tile |= {"GROUP_M": 8, "RELU": relu}
    n_tiles = triton.cdiv(n_rows, tile["BLOCK_M"]) * triton.cdiv(n_cols, tile["BLOCK_N"])
    sizes = (n_rows, n_cols, n_inner)
    if can_describe(a) and can_describe(b):
        by_columns = {"A_BY_COLUMNS": a.stride(1) != 1, "B_BY_COLUMNS": b.stride(1) != 1}
        n_programs = torch.cuda.get_device_properties(a.device).multi_processor_count
        triton.set_allocator(lambda size, *_: torch.empty(size, dtype=torch.int8, device=a.device))
        matmul_descriptor_kernel[(min(n_programs, n_tiles),)](
            a, b, c, *sizes, max(a.stride()), max(b.stride()), **by_columns, **tile
        )
    else:
        matmul_kernel[(n_tiles,)](
            a,
            b,
            c,
            *sizes,
            *a.stride(),
            *b.stride(),
            *c.stride(),
            INPUT_PRECISION="ieee" if highest else "tf32",
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
        # one kernel on its own: in the products' loops the mask would be applied to every tile
        # again, and y read as often as dy
        block = min(triton.next_power_of_2(n_cols), 4096)
        relu_backward_kernel[(n_rows, triton.cdiv(n_cols, block))](
            y,
            dy,
            g,
            n_cols,
            y.stride(0),
            dy.stride(0),
            dy.stride(1),
            g.stride(0),
            BLOCK_N=block,
            # 8 elements a thread: one load of 16 bytes from each matrix
            num_warps=max(block // 256, 1),
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
