// What PyTorch's C++ interface says of the current GPU: streams, guards, properties. Part of torch.h.
#pragma once

namespace at::cuda {

struct CUDAStream {
  cudaStream_t stream() const { return nullptr; }
  operator cudaStream_t() const { return nullptr; }
  void synchronize() const {}
};
inline CUDAStream getCurrentCUDAStream(int = 0) { return {}; }
inline CUDAStream getDefaultCUDAStream(int = 0) { return {}; }

inline cudaDeviceProp* getDeviceProperties(int device) {
  static cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, device);
  return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }

}  // namespace at::cuda

namespace c10::cuda {

using at::cuda::CUDAStream;
using at::cuda::getCurrentCUDAStream;
using at::cuda::getDefaultCUDAStream;
inline int8_t current_device() { return 0; }
inline int8_t device_count() { return 1; }
struct CUDAGuard {
  explicit CUDAGuard(Device) {}
  explicit CUDAGuard(int) {}
};
struct OptionalCUDAGuard {
  template <class T>
  explicit OptionalCUDAGuard(const T&) {}
};

}  // namespace c10::cuda

namespace at::cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::OptionalCUDAGuard;
}  // namespace at::cuda
