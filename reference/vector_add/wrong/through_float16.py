"""Takes all 16-bit floats for float16: bfloat16 holds larger values."""

import torch
import triton
import triton.language as tl

EXPECTED_VERDICT = "non_finite"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = ("n300-bfloat16-extreme",)


@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0).to(tl.int64)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    if x_ptr.dtype.element_ty == tl.bfloat16:
        x = x.to(tl.float16)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x, y = (x.contiguous(), y.contiguous())
    out = torch.empty_like(x)
    n_elements = x.numel()
    grid = (triton.cdiv(n_elements, 1024),)
    vector_add_kernel[grid](x, y, out, n_elements, BLOCK_SIZE=1024)
    return out
