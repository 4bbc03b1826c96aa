// CUDA's keywords, index variables and functions as a host compiler can read them. Every thread of a
// launch runs to its end before the next one starts. Not covered: shared memory and __syncthreads,
// warp functions, atomics, textures, half precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __constant__
#define __grid_constant__
#define __managed__

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

#define CUDA_HOST_VECTORS(type, name)                                                              \
  struct name##1 { type x; };                                                                      \
  struct alignas(2 * sizeof(type)) name##2 { type x, y; };                                         \
  struct name##3 { type x, y, z; };                                                                \
  struct alignas(4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type)) name##4 { type x, y, z, w; };      \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }                                 \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                      \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
CUDA_HOST_VECTORS(float, float)
CUDA_HOST_VECTORS(double, double)
CUDA_HOST_VECTORS(int, int)
#undef CUDA_HOST_VECTORS

namespace cuda_host {
extern uint3 block_index, thread_index;
extern dim3 block_size, grid_size;
}  // namespace cuda_host

static const uint3& blockIdx = cuda_host::block_index;
static const uint3& threadIdx = cuda_host::thread_index;
static const dim3& blockDim = cuda_host::block_size;
static const dim3& gridDim = cuda_host::grid_size;
constexpr int warpSize = 32;

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9 };
using cudaError = cudaError_t;
using cudaStream_t = void*;
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

// The GPU that is pretended: as the simulator of Triton, an A100.
struct cudaDeviceProp {
  char name[256] = "NVIDIA A100-SXM4-80GB";
  int major = 8, minor = 0, multiProcessorCount = 108, warpSize = 32;
  int maxThreadsPerBlock = 1024, maxThreadsPerMultiProcessor = 2048;
  int maxThreadsDim[3] = {1024, 1024, 64};
  int maxGridSize[3] = {2147483647, 65535, 65535};
};
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = cudaDeviceProp();
  return cudaSuccess;
}

namespace cuda_host {

// Runs body(context) once for each thread, with the index variables set, or notes why CUDA would
// refuse the launch.
void launch(const char* kernel, dim3 grid, dim3 block, size_t shared_bytes, void (*body)(void*),
            void* context);

// kernel<<<grid, block>>>(x, y, n) is rewritten to
// cuda_host::configured(grid, block).with("kernel", [&](auto... a) { kernel(a...); })(x, y, n)
template <class Kernel>
struct Launch {
  const char* name;
  dim3 grid, block;
  size_t shared_bytes;
  Kernel kernel;
  template <class... Arguments>
  void operator()(Arguments... arguments) const {
    auto body = [&] { kernel(arguments...); };
    launch(name, grid, block, shared_bytes,
           [](void* context) { (*static_cast<decltype(body)*>(context))(); }, &body);
  }
};
struct Configured {
  dim3 grid, block;
  size_t shared_bytes;
  template <class Kernel>
  Launch<Kernel> with(const char* name, Kernel kernel) const {
    return {name, grid, block, shared_bytes, kernel};
  }
};
inline Configured configured(dim3 grid, dim3 block, size_t shared_bytes = 0, void* = nullptr) {
  return {grid, block, shared_bytes};
}

}  // namespace cuda_host

#ifndef M_PI
#define M_PI 3.14159265358979323846
#define M_SQRT2 1.41421356237309504880
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT1_2 0.70710678118654752440
#endif
#define CUDART_PI_F 3.141592654f

// no templates: beside those of std, after `using namespace std`, these are preferred
#define CUDA_HOST_MAX_MIN(result, left, right)             \
  constexpr result max(left first, right second) {         \
    const result a = first, b = second;                    \
    return a > b ? a : b;                                  \
  }                                                        \
  constexpr result min(left first, right second) {         \
    const result a = first, b = second;                    \
    return a < b ? a : b;                                  \
  }
CUDA_HOST_MAX_MIN(int, int, int)
CUDA_HOST_MAX_MIN(unsigned, unsigned, unsigned)
CUDA_HOST_MAX_MIN(unsigned, int, unsigned)
CUDA_HOST_MAX_MIN(unsigned, unsigned, int)
CUDA_HOST_MAX_MIN(long, long, long)
CUDA_HOST_MAX_MIN(unsigned long, unsigned long, unsigned long)
CUDA_HOST_MAX_MIN(unsigned long, long, unsigned long)
CUDA_HOST_MAX_MIN(unsigned long, unsigned long, long)
CUDA_HOST_MAX_MIN(long long, long long, long long)
CUDA_HOST_MAX_MIN(unsigned long long, unsigned long long, unsigned long long)
CUDA_HOST_MAX_MIN(float, float, float)
CUDA_HOST_MAX_MIN(double, double, double)
CUDA_HOST_MAX_MIN(double, float, double)
CUDA_HOST_MAX_MIN(double, double, float)
#undef CUDA_HOST_MAX_MIN
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float rsqrt(float x) { return 1 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float __saturatef(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
template <class T>
T __ldg(const T* pointer) {
  return *pointer;
}
