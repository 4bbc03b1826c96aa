// Runs one call of a function of the module and tells what its kernels did.
//
//     program REQUEST REPLY DATA
//
// REQUEST names the function and holds its arguments, REPLY gets a line for whatever there is to tell,
// DATA the memory of the tensor arguments after the call and of the result. Reads no other file.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "accesses.h"
#include "tensors.h"

void cuda_host_module(cuda_host::Module& module);

namespace cuda_host {
namespace {

void note_crash(int number) {
  char text[160];
  const int n = std::snprintf(text, sizeof text, "signal %d %d %u %u %u %u %u %u\n", number, in_kernel,
                              block_index.x, block_index.y, block_index.z, thread_index.x,
                              thread_index.y, thread_index.z);
  if (write(fileno(reply), text, n) < 0) _exit(1);
  signal(number, SIG_DFL);
  raise(number);
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

std::vector<Value> requested(std::istream& request, size_t n_values) {
  std::vector<Value> values(n_values);
  for (Value& value : values) {
    std::string kind;
    request >> kind;
    if (kind == "tensor") {
      int type, is_cuda;
      size_t n_axes;
      int64_t n_bytes;
      at::Tensor& x = value.tensor;
      request >> type >> is_cuda >> x.first >> n_bytes >> n_axes;
      x.kind = static_cast<c10::ScalarType>(type);
      x.shape.resize(n_axes);
      x.steps.resize(n_axes);
      for (int64_t& size : x.shape) request >> size;
      for (int64_t& step : x.steps) request >> step;
      request.get();
      std::vector<char> bytes(n_bytes);
      request.read(bytes.data(), n_bytes);
      x.storage = allocate(n_bytes, is_cuda);
      fill(*x.storage, 0, bytes.data(), n_bytes);
      value.kind = Value::Tensor;
    } else if (kind == "integer") {
      request >> value.integer;
      value.kind = Value::Integer;
    } else {
      request >> value.real;
      value.kind = Value::Real;
    }
  }
  return values;
}

void answer(const Value& result, const std::vector<Value>& arguments, const char* data_path) {
  std::ofstream data(data_path, std::ios::binary);
  for (const Value& value : arguments)
    if (value.kind == Value::Tensor)
      data.write(value.tensor.storage->data, value.tensor.storage->n_bytes);
  if (result.kind == Value::Tensor && result.tensor.defined()) {
    const at::Tensor& y = result.tensor;
    std::fprintf(reply, "tensor %d %d %d %ld %ld %zu", static_cast<int>(y.kind), y.is_cuda(),
                 y.storage->id, long(y.first), long(y.storage->n_bytes), y.shape.size());
    for (int64_t size : y.shape) std::fprintf(reply, " %ld", long(size));
    for (int64_t step : y.steps) std::fprintf(reply, " %ld", long(step));
    std::fprintf(reply, "\n");
    data.write(y.storage->data, y.storage->n_bytes);
  } else if (result.kind == Value::Integer) {
    std::fprintf(reply, "integer %ld\n", long(result.integer));
  } else if (result.kind == Value::Real) {
    std::fprintf(reply, "real %.17g\n", result.real);
  } else {
    std::fprintf(reply, "none\n");
  }
}

void call(const std::string& name, const std::vector<Value>& arguments, const char* data_path) {
  Module module;
  cuda_host_module(module);
  for (const auto& [known, function] : module.functions) {
    if (known != name) continue;
    if (!function->fits(arguments)) {
      std::fprintf(reply, "misfit\n");
      return;
    }
    try {
      answer(function->call(arguments), arguments, data_path);
    } catch (const std::exception& error) {
      std::fprintf(reply, "error %s\n", one_line(error.what()).c_str());
    } catch (...) {
      std::fprintf(reply, "error a C++ exception\n");
    }
    return;
  }
  std::fprintf(reply, "unknown\n");
}

}  // namespace
}  // namespace cuda_host

// The launcher of a kernel has no use for processes: what would be left of them outlives the call.
extern "C" pid_t fork() noexcept {
  errno = EPERM;
  return -1;
}
extern "C" pid_t vfork() noexcept {
  errno = EPERM;
  return -1;
}

int main(int argc, char** argv) {
  using namespace cuda_host;
  stack_top = reinterpret_cast<char*>(argv);
  if (argc != 4 || !(reply = std::fopen(argv[2], "w"))) return 2;
  // for system() and the like; whoever is root has no such limit, so the caller ends the whole group
  const rlimit one{1, 1};
  setrlimit(RLIMIT_NPROC, &one);
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(number, note_crash);
  std::ifstream request(argv[1], std::ios::binary);
  std::string name;
  size_t n_values;
  request >> name >> n_values;
  const std::vector<Value> arguments = requested(request, n_values);
  call(name, arguments, argv[3]);
  if (last_error != cudaSuccess) std::fprintf(reply, "pending %s\n", cudaGetErrorString(last_error));
  for (const auto& [key, finding] : findings)
    std::fprintf(reply, "finding %s %ld%s\n", key.c_str(), long(finding.count),
                 finding.where.c_str());
  std::fprintf(reply, "done\n");
  std::fclose(reply);
  return 0;
}
