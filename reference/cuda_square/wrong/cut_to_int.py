"""Mistake: an int holds no fraction."""

import functools
from types import ModuleType

import torch
from torch.utils.cpp_extension import load_inline

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = None

CUDA_SOURCE = """
#include <torch/types.h>

#include <c10/cuda/CUDAException.h>

__global__ void square_kernel(const float* x, float* y, int rows, int cols) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < rows && col < cols) {
    const int value = x[row * cols + col];
    y[row * cols + col] = value * value;
  }
}

torch::Tensor cuda_square(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda(), "x must be on the GPU");
  TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
  torch::Tensor y = torch::empty_like(x);
  if (x.numel() == 0) {
    return y;
  }
  const int rows = x.size(0);
  const int cols = x.size(1);
  const dim3 threads(16, 16);
  const dim3 blocks((cols + 15) / 16, (rows + 15) / 16);
  square_kernel<<<blocks, threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
"""


@functools.cache
def extension() -> ModuleType:
    return load_inline(
        name="cuda_square",
        cpp_sources="torch::Tensor cuda_square(torch::Tensor x);",
        cuda_sources=CUDA_SOURCE,
        functions=["cuda_square"],
    )


def cuda_square(x: torch.Tensor) -> torch.Tensor:
    return extension().cuda_square(x)
