"""A program a block, and each adds its part to the row's sum with a load and a store: a race."""

import torch
import triton
import triton.language as tl

EXPECTED_VERDICT = "race"
EXPECTED_GROUP = "memory"
EXPECTED_CASES = None


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, x_row_stride, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.program_id(axis=1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=cols < n_cols, other=0.0)
    total = tl.load(out_ptr + row) + tl.sum(x.to(tl.float32), axis=0)
    tl.store(out_ptr + row, total)


def row_sum(x: torch.Tensor) -> torch.Tensor:
    if x.stride(1) != 1:
        x = x.contiguous()
    n_rows, n_cols = x.shape
    out = torch.zeros(n_rows, dtype=torch.float32, device=x.device)
    block_size = min(triton.next_power_of_2(n_cols), 4096)
    grid = (n_rows, triton.cdiv(n_cols, block_size))
    row_sum_kernel[grid](x, out, x.stride(0), n_cols, BLOCK_SIZE=block_size)
    return out.to(x.dtype)
