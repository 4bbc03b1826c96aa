// What pybind11 does for load_inline: functions of the module by name, tensors and numbers in and out.
// Included at the end of torch.h.
#pragma once

namespace cuda_host {

// A value that crosses between Python and a function of the module.
struct Value {
  enum Kind { None, Tensor, Integer, Real } kind = None;
  at::Tensor tensor;
  int64_t integer = 0;
  double real = 0;
};

template <class T, class = void>
struct Convert {
  static_assert(sizeof(T) == 0, "not known here: a function of the module takes and returns"
                                " tensors and numbers");
};
template <>
struct Convert<at::Tensor> {
  static bool fits(const Value& value) { return value.kind == Value::Tensor; }
  static at::Tensor in(const Value& value) { return value.tensor; }
  static Value out(at::Tensor tensor) {
    Value value;
    value.kind = Value::Tensor;
    value.tensor = tensor;
    return value;
  }
};
template <class T>
struct Convert<T, std::enable_if_t<std::is_integral_v<T>>> {
  static bool fits(const Value& value) { return value.kind == Value::Integer; }
  static T in(const Value& value) { return static_cast<T>(value.integer); }
  static Value out(T integer) {
    Value value;
    value.kind = Value::Integer;
    value.integer = integer;
    return value;
  }
};
template <class T>
struct Convert<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static bool fits(const Value& value) {
    return value.kind == Value::Real || value.kind == Value::Integer;
  }
  static T in(const Value& value) {
    return static_cast<T>(value.kind == Value::Real ? value.real : double(value.integer));
  }
  static Value out(T real) {
    Value value;
    value.kind = Value::Real;
    value.real = real;
    return value;
  }
};

struct Function {
  virtual ~Function() {}
  virtual bool fits(const std::vector<Value>& arguments) const = 0;
  virtual Value call(const std::vector<Value>& arguments) const = 0;
};

template <class Result, class... Arguments>
struct Bound : Function {
  Result (*function)(Arguments...);
  explicit Bound(Result (*function)(Arguments...)) : function(function) {}
  template <size_t... I>
  bool all_fit(const std::vector<Value>& given, std::index_sequence<I...>) const {
    return (true && ... && Convert<std::decay_t<Arguments>>::fits(given[I]));
  }
  template <size_t... I>
  Value called(const std::vector<Value>& given, std::index_sequence<I...>) const {
    if constexpr (std::is_void_v<Result>) {
      function(Convert<std::decay_t<Arguments>>::in(given[I])...);
      return Value();
    } else {
      return Convert<std::decay_t<Result>>::out(
          function(Convert<std::decay_t<Arguments>>::in(given[I])...));
    }
  }
  bool fits(const std::vector<Value>& given) const override {
    return given.size() == sizeof...(Arguments) &&
           all_fit(given, std::index_sequence_for<Arguments...>());
  }
  Value call(const std::vector<Value>& given) const override {
    return called(given, std::index_sequence_for<Arguments...>());
  }
};

struct Module {
  std::vector<std::pair<std::string, std::unique_ptr<Function>>> functions;
  template <class Result, class... Arguments, class... Rest>
  Module& def(const char* name, Result (*function)(Arguments...), const Rest&...) {
    functions.emplace_back(name, std::make_unique<Bound<Result, Arguments...>>(function));
    return *this;
  }
};

}  // namespace cuda_host

// what load_inline writes at the end of main.cpp
#define TORCH_EXTENSION_NAME extension
#define PYBIND11_MODULE(name, module) void cuda_host_module(cuda_host::Module& module)
