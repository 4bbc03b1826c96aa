"""Mistake: one block for everything; a block has at most 1024 threads."""

import functools
from types import ModuleType

import torch
from torch.utils.cpp_extension import load_inline

EXPECTED_VERDICT = "crashed"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = ("whole-blocks", "one-more", "large", "other-sizes")

CUDA_SOURCE = """
#include <torch/types.h>

#include <c10/cuda/CUDAException.h>

__global__ void gelu_kernel(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    const float x = in[i];
    const float a = 0.79788456f * (x + 0.044715f * x * x * x);
    out[i] = 0.5f * x * (1.0f + tanhf(a));
  }
}

torch::Tensor cuda_gelu(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda(), "x must be on the GPU");
  TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
  torch::Tensor y = torch::empty_like(x);
  const int n = x.numel();
  if (n == 0) {
    return y;
  }
  gelu_kernel<<<1, n>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
"""


@functools.cache
def extension() -> ModuleType:
    return load_inline(
        name="cuda_gelu",
        cpp_sources="torch::Tensor cuda_gelu(torch::Tensor x);",
        cuda_sources=CUDA_SOURCE,
        functions=["cuda_gelu"],
    )


def cuda_gelu(x: torch.Tensor) -> torch.Tensor:
    return extension().cuda_gelu(x)
