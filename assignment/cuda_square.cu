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
  // TODO: your code here, instead of the next line
#error "TODO: implement square_kernel"
}

// Runs on the CPU: checks x, makes y, and launches as many blocks as it takes.
torch::Tensor cuda_square(torch::Tensor x) {
  // A kernel gets bare pointers, so nobody else will notice memory of the CPU or rows with gaps:
  // TORCH_CHECK(condition, "message") raises an error in Python.
  // torch::empty_like(x) makes y, x.size(0) counts rows, x.data_ptr<float>() is a bare pointer.
  // kernel<<<grid, block>>>(...) launches, both of them dim3(x, y). Whether CUDA took the launch, the
  // macro C10_CUDA_KERNEL_LAUNCH_CHECK asks.
  // An empty matrix needs no launch, and a launch of 0 blocks is an error.
  // TODO: your code here, instead of the next line
#error "TODO: implement cuda_square"
}
