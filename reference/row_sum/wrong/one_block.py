"""Reads one block of 65,536 and has no loop: the end of a longer row is missing."""

import torch
import triton
import triton.language as tl

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = ("M3-N70001-float32",)


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, x_row_stride, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=cols < n_cols, other=0.0)
    partial = x.to(tl.float32)
    tl.store(out_ptr + row, tl.sum(partial, axis=0))


def row_sum(x: torch.Tensor) -> torch.Tensor:
    if x.stride(1) != 1:
        x = x.contiguous()
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=x.dtype, device=x.device)
    block_size = min(triton.next_power_of_2(n_cols), 65536)
    row_sum_kernel[(n_rows,)](x, out, x.stride(0), n_cols, BLOCK_SIZE=block_size, num_warps=16)
    return out
