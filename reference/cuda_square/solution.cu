// The square of every element of a matrix: y = x * x, in float32.
//
// load_inline compiles this file with nvcc. Without a GPU the grader compiles the same file for the
// CPU, runs thread after thread, and checks every access to memory.
#include <torch/types.h>

#include <c10/cuda/CUDAException.h>

// One thread squares one element. x and y lie row after row: element (row, col) is at row * cols + col.
__global__ void square_kernel(const float* x, float* y, int rows, int cols) {
  // threadIdx says which thread of its block this is, blockIdx which block, blockDim how many threads
  // a block has: each with .x (here along the columns) and .y (along the rows).
  // Blocks are whole: at the right and lower edge some of their threads have no element.
  // BEGIN SOLUTION
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < rows && col < cols) {
    const float value = x[row * cols + col];
    y[row * cols + col] = value * value;
  }
  // END SOLUTION
}

// Runs on the CPU: checks x, makes y, and launches as many blocks as it takes.
torch::Tensor cuda_square(torch::Tensor x) {
  // A kernel gets bare pointers, so nobody else will notice memory of the CPU or rows with gaps:
  // TORCH_CHECK(condition, "message") raises an error in Python.
  // torch::empty_like(x) makes y, x.size(0) counts rows, x.data_ptr<float>() is a bare pointer.
  // kernel<<<grid, block>>>(...) launches, both of them dim3(x, y). Whether CUDA took the launch, the
  // macro C10_CUDA_KERNEL_LAUNCH_CHECK asks.
  // An empty matrix needs no launch, and a launch of 0 blocks is an error.
  // BEGIN SOLUTION
  TORCH_CHECK(x.is_cuda(), "cuda_square: x must be on the GPU");
  TORCH_CHECK(x.is_contiguous(), "cuda_square: x must be contiguous");
  TORCH_CHECK(x.dim() == 2, "cuda_square: x must be a matrix");
  torch::Tensor y = torch::empty_like(x);
  if (x.numel() == 0) {
    return y;
  }
  const int rows = x.size(0);
  const int cols = x.size(1);
  // 32 neighbours along a row make one warp: they read 128 bytes in one go
  const dim3 threads(32, 8);
  // rounded up, so that the last rows and columns get a block, too
  const dim3 blocks((cols + threads.x - 1) / threads.x, (rows + threads.y - 1) / threads.y);
  square_kernel<<<blocks, threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
  // a launch that CUDA refuses says nothing by itself
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
  // END SOLUTION
}
