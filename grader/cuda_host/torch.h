// The part of PyTorch's C++ interface that a launcher of elementwise kernels uses, small enough to
// compile in a second. Host code of a .cu file compiles against it, with a host compiler (device.h
// stands in for CUDA) or with nvcc. Not covered: autograd, arithmetic on tensors, half precision.
#pragma once

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "device.h"
#endif

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace c10 {

enum class ScalarType : int8_t { Float, Double, Int, Long, Bool };
enum class DeviceType : int8_t { CPU, CUDA };

constexpr ScalarType kFloat = ScalarType::Float, kFloat32 = ScalarType::Float;
constexpr ScalarType kDouble = ScalarType::Double, kFloat64 = ScalarType::Double;
constexpr ScalarType kInt = ScalarType::Int, kInt32 = ScalarType::Int;
constexpr ScalarType kLong = ScalarType::Long, kInt64 = ScalarType::Long;
constexpr ScalarType kBool = ScalarType::Bool;
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;

inline const char* toString(ScalarType type) {
  static const char* const names[] = {"Float", "Double", "Int", "Long", "Bool"};
  return names[static_cast<int>(type)];
}

inline int64_t elementSize(ScalarType type) {
  static const int64_t sizes[] = {4, 8, 4, 8, 1};
  return sizes[static_cast<int>(type)];
}

template <class T>
struct CppTypeToScalarType;
#define CUDA_HOST_SCALAR(type, member)                         \
  template <>                                                  \
  struct CppTypeToScalarType<type> {                           \
    static constexpr ScalarType value = ScalarType::member;    \
  };
CUDA_HOST_SCALAR(float, Float)
CUDA_HOST_SCALAR(double, Double)
CUDA_HOST_SCALAR(int32_t, Int)
CUDA_HOST_SCALAR(int64_t, Long)
CUDA_HOST_SCALAR(bool, Bool)
#undef CUDA_HOST_SCALAR

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Device {
  DeviceType kind;
  Device(DeviceType kind, int = 0) : kind(kind) {}
  bool is_cuda() const { return kind == kCUDA; }
  bool is_cpu() const { return kind == kCPU; }
  DeviceType type() const { return kind; }
  int index() const { return is_cuda() ? 0 : -1; }
  bool operator==(const Device& other) const { return kind == other.kind; }
  bool operator!=(const Device& other) const { return kind != other.kind; }
};

// Of sizes and strides.
struct IntArrayRef {
  std::vector<int64_t> values;
  IntArrayRef(std::vector<int64_t> values) : values(std::move(values)) {}
  IntArrayRef(std::initializer_list<int64_t> values) : values(values) {}
  // x.view(-1) is x.view({-1})
  IntArrayRef(int64_t value) : values{value} {}
  const int64_t* begin() const { return values.data(); }
  const int64_t* end() const { return values.data() + values.size(); }
  const int64_t* data() const { return values.data(); }
  size_t size() const { return values.size(); }
  bool empty() const { return values.empty(); }
  const int64_t& operator[](size_t i) const { return values.at(i); }
  bool operator==(const IntArrayRef& other) const { return values == other.values; }
  bool operator!=(const IntArrayRef& other) const { return values != other.values; }
  std::vector<int64_t> vec() const { return values; }
};

struct TensorOptions {
  ScalarType type = kFloat;
  DeviceType place = kCPU;
  TensorOptions() {}
  TensorOptions(ScalarType type) : type(type) {}
  TensorOptions(DeviceType place) : place(place) {}
  TensorOptions(Device device) : place(device.kind) {}
  TensorOptions dtype(ScalarType wanted) const { auto o = *this; o.type = wanted; return o; }
  TensorOptions device(Device wanted) const { auto o = *this; o.place = wanted.kind; return o; }
  TensorOptions device(DeviceType wanted, int) const { return device(Device(wanted)); }
  TensorOptions requires_grad(bool) const { return *this; }
};

}  // namespace c10

namespace cuda_host {

// Memory of one tensor; the bytes lie between guard zones and are known to the access checks.
struct Storage {
  char* data;
  int64_t n_bytes;
  bool is_cuda;
  int id;
};

std::shared_ptr<Storage> allocate(int64_t n_bytes, bool is_cuda);
// Copies and fills as PyTorch's own kernels would: the access checks know what is written.
void fill(Storage& storage, int64_t first_byte, const void* bytes, int64_t n_bytes);
[[noreturn]] void refuse(const std::string& message);

inline std::string told(const std::string& value) { return value; }
inline std::string told(const char* value) { return value; }
inline std::string told(c10::ScalarType value) { return c10::toString(value); }
inline std::string told(const c10::Device& value) { return value.is_cuda() ? "cuda:0" : "cpu"; }
inline std::string told(c10::DeviceType value) { return value == c10::kCUDA ? "cuda" : "cpu"; }
inline std::string told(const c10::IntArrayRef& value) {
  std::string text = "[";
  for (size_t i = 0; i < value.size(); ++i) text += (i ? ", " : "") + std::to_string(value[i]);
  return text + "]";
}
template <class T>
auto told(const T& value) -> decltype(std::to_string(value)) {
  return std::to_string(value);
}
template <class... Parts>
std::string sentence(const Parts&... parts) {
  std::string text;
  (void)std::initializer_list<int>{(text += told(parts), 0)...};
  return text;
}

}  // namespace cuda_host

namespace at {
using namespace c10;

class Tensor {
 public:
  std::shared_ptr<cuda_host::Storage> storage;
  std::vector<int64_t> shape, steps;
  int64_t first = 0;
  ScalarType kind = kFloat;

  bool defined() const { return storage != nullptr; }
  int64_t dim() const { return static_cast<int64_t>(shape.size()); }
  int64_t ndimension() const { return dim(); }
  int64_t size(int64_t axis) const { return shape.at(wrapped(axis)); }
  int64_t stride(int64_t axis) const { return steps.at(wrapped(axis)); }
  IntArrayRef sizes() const { return shape; }
  IntArrayRef strides() const { return steps; }
  int64_t storage_offset() const { return first; }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t size : shape) n *= size;
    return n;
  }
  int64_t element_size() const { return elementSize(kind); }
  int64_t itemsize() const { return element_size(); }
  int64_t nbytes() const { return numel() * element_size(); }
  bool is_contiguous() const {
    int64_t step = 1;
    for (size_t axis = shape.size(); axis-- > 0; step *= shape[axis])
      if (shape[axis] != 1 && steps[axis] != step && numel() > 0) return false;
    return true;
  }
  // Whether the elements fill their memory, in whatever order of the axes.
  bool is_non_overlapping_and_dense() const;

  bool is_cuda() const { return storage->is_cuda; }
  bool is_cpu() const { return !is_cuda(); }
  Device device() const { return Device(is_cuda() ? kCUDA : kCPU); }
  int get_device() const { return device().index(); }
  ScalarType scalar_type() const { return kind; }
  ScalarType dtype() const { return kind; }
  // what x.type() was used for before x.device() and x.scalar_type() came
  struct TypeProperties {
    bool on_cuda;
    ScalarType scalar;
    bool is_cuda() const { return on_cuda; }
    ScalarType scalarType() const { return scalar; }
    operator ScalarType() const { return scalar; }
  };
  TypeProperties type() const { return {is_cuda(), scalar_type()}; }
  bool is_floating_point() const { return kind == kFloat || kind == kDouble; }
  TensorOptions options() const { return TensorOptions(kind).device(device()); }
  bool requires_grad() const { return false; }
  bool is_same(const Tensor& other) const {
    return storage == other.storage && first == other.first && shape == other.shape;
  }

  void* data_ptr() const { return storage->data + first * element_size(); }
  template <class T>
  T* data_ptr() const {
    using Plain = std::remove_const_t<T>;
    if (CppTypeToScalarType<Plain>::value != kind)
      cuda_host::refuse(cuda_host::sentence("expected scalar type ",
                                            CppTypeToScalarType<Plain>::value, " but found ", kind));
    return static_cast<T*>(data_ptr());
  }
  template <class T>
  const T* const_data_ptr() const { return data_ptr<T>(); }
  template <class T>
  T* mutable_data_ptr() const { return data_ptr<T>(); }
  template <class T>
  T* data() const { return data_ptr<T>(); }

  Tensor contiguous() const { return is_contiguous() ? *this : copied_to(false); }
  Tensor clone() const { return copied_to(true); }
  Tensor detach() const { return *this; }
  Tensor view(IntArrayRef sizes) const;
  Tensor reshape(IntArrayRef sizes) const { return contiguous().view(sizes); }
  Tensor view_as(const Tensor& other) const { return view(other.sizes()); }
  Tensor reshape_as(const Tensor& other) const { return reshape(other.sizes()); }
  Tensor flatten(int64_t start = 0, int64_t end = -1) const;

 private:
  Tensor copied_to(bool keep_order) const;
  size_t wrapped(int64_t axis) const { return static_cast<size_t>(axis < 0 ? axis + dim() : axis); }
};

Tensor empty(IntArrayRef sizes, TensorOptions options = {});
Tensor zeros(IntArrayRef sizes, TensorOptions options = {});
// As PyTorch's: x.t() without gaps gives a tensor with the strides of x.t().
Tensor empty_like(const Tensor& x, TensorOptions options);
Tensor zeros_like(const Tensor& x, TensorOptions options);
inline Tensor empty_like(const Tensor& x) { return empty_like(x, x.options()); }
inline Tensor zeros_like(const Tensor& x) { return zeros_like(x, x.options()); }

}  // namespace at

#include "context.h"

namespace at {
inline Device device_of(const Tensor& x) { return x.device(); }
}  // namespace at

namespace torch {
using namespace at;
using namespace c10;
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions device(Device place) { return TensorOptions(place); }
template <class F>
F wrap_pybind_function(F function) { return function; }
}  // namespace torch

#define TORCH_CHECK(condition, ...)                                                             \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      const std::string cuda_host_said = cuda_host::sentence(__VA_ARGS__);                      \
      cuda_host::refuse(cuda_host_said.empty() ? "Expected " #condition " to be true, but got " \
                                                 "false."                                       \
                                               : cuda_host_said);                               \
    }                                                                                           \
  } while (0)
#define TORCH_INTERNAL_ASSERT TORCH_CHECK
#define AT_ASSERTM TORCH_CHECK
#define AT_ASSERT TORCH_CHECK
#define AT_ERROR(...) cuda_host::refuse(cuda_host::sentence(__VA_ARGS__))
#define C10_CUDA_CHECK(call)                                                                    \
  do {                                                                                          \
    const cudaError_t cuda_host_error = (call);                                                 \
    if (cuda_host_error != cudaSuccess)                                                         \
      cuda_host::refuse(cuda_host::sentence("CUDA error: ", cudaGetErrorString(cuda_host_error))); \
  } while (0)
#define AT_CUDA_CHECK C10_CUDA_CHECK
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define AT_DISPATCH_FLOATING_TYPES(type, name, ...)                                    \
  [&] {                                                                                \
    switch (type) {                                                                    \
      case c10::ScalarType::Float: { using scalar_t = float; return __VA_ARGS__(); }   \
      case c10::ScalarType::Double: { using scalar_t = double; return __VA_ARGS__(); } \
      default: cuda_host::refuse(cuda_host::sentence("\"", name, "\" not implemented for '", type, "'")); \
    }                                                                                  \
  }()

#include "binding.h"
