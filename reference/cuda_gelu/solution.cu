// GELU in its tanh form, of every element: one kernel, one read and one write.
//
//     gelu(x) = x/2 (1 + tanh(a))      a = sqrt(2/pi) (x + 0.044715 x^3)
//
// load_inline compiles this file with nvcc. Without a GPU the grader compiles the same file for the
// CPU, runs thread after thread, and checks every access to memory.
#include <torch/types.h>

#include <c10/cuda/CUDAException.h>

// One thread computes one element; in and out hold n elements side by side.
__global__ void gelu_kernel(const float* in, float* out, int n) {
  // Which element? blockIdx.x is the block, blockDim.x the number of threads in one, threadIdx.x the
  // thread in its block. The last block may have threads for which there is no element.
  // tanhf(a) is right for every a. (e - 1) / (e + 1) with e = expf(2 a) is not: expf overflows.
  // BEGIN SOLUTION
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    const float x = in[i];
    // sqrt(2/pi) = 0.79788456
    const float a = 0.79788456f * (x + 0.044715f * x * x * x);
    // the f keeps it in float32: 0.5 is a double, and double is many times slower
    out[i] = 0.5f * x * (1.0f + tanhf(a));
  }
  // END SOLUTION
}

// Runs on the CPU: checks x, makes y, and launches as many blocks as it takes.
torch::Tensor cuda_gelu(torch::Tensor x) {
  // A kernel gets bare pointers, so nobody else will notice memory of the CPU or gaps between the
  // elements: TORCH_CHECK(condition, "message") raises an error in Python.
  // x.numel() counts the elements of a tensor of any shape.
  // An empty tensor needs no launch, and a launch of 0 blocks is an error.
  // BEGIN SOLUTION
  TORCH_CHECK(x.is_cuda(), "cuda_gelu: x must be on the GPU");
  TORCH_CHECK(x.is_contiguous(), "cuda_gelu: x must be contiguous");
  // not zeros_like: the kernel writes every element
  torch::Tensor y = torch::empty_like(x);
  const int n = x.numel();
  if (n == 0) {
    return y;
  }
  const int threads = 256;
  // rounded up, so that the last elements get a block, too
  const int blocks = (n + threads - 1) / threads;
  gelu_kernel<<<blocks, threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  // a launch that CUDA refuses says nothing by itself
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
  // END SOLUTION
}
