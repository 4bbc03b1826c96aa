// Runs one call of a function of the module and tells what its kernels did.
//
//     program REQUEST REPLY DATA
//
// The module is compiled so that every access to memory first calls __tsan_read4 and its like, as if
// for a thread sanitizer; that sanitizer is not linked, the functions are here. So an access is known
// before it happens, and a thread whose access lies outside every tensor ends there.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csetjmp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "torch.h"

void cuda_host_module(cuda_host::Module& module);
extern "C" char __executable_start, _end;

namespace cuda_host {

uint3 block_index, thread_index;
dim3 block_size, grid_size;

namespace {

// An index that is off by less finds its tensor in the message.
constexpr int64_t GUARD_BYTES = int64_t{512} << 20;
constexpr int64_t SMALL_GUARD_BYTES = int64_t{1} << 20;
constexpr int64_t ALIGNMENT = 4096;
constexpr int64_t GRAIN = 4;  // bytes for which one writer is remembered
constexpr unsigned UNWRITTEN = 0xffffffff, WRITTEN_BEFORE = 0xfffffffe;
constexpr unsigned POISON = 0x7fc0dead;  // a NaN that no arithmetic makes

struct Region {
  std::weak_ptr<Storage> storage;
  char* begin;
  int64_t n_bytes;
  int64_t reach_bytes;
  bool is_cuda;
  std::vector<unsigned> writer;  // thread of the running launch, or one of the two above
};

struct Finding {
  std::string where;
  int64_t count = 0;
};

std::vector<Region> regions;
std::map<std::string, Finding> findings;
std::FILE* reply;
const char* kernel_name = "";
bool in_kernel;
unsigned thread_number;
jmp_buf next_thread;
char* stack_top;
cudaError_t last_error = cudaSuccess;

bool is_in(const Region& region, const char* at, int64_t n_bytes) {
  return region.begin <= at && at + n_bytes <= region.begin + region.n_bytes;
}

int64_t distance(const Region& region, const char* at) {
  if (at < region.begin) return region.begin - at;
  return at < region.begin + region.n_bytes ? 0 : at - (region.begin + region.n_bytes) + 1;
}

int nearest(const char* at) {
  int best = -1;
  for (size_t i = 0; i < regions.size(); ++i) {
    if (distance(regions[i], at) > regions[i].reach_bytes) continue;
    if (best < 0 || distance(regions[i], at) < distance(regions[best], at))
      best = static_cast<int>(i);
  }
  return best;
}

// Notes what is wrong, the first time with its thread; a line of text holds no line break.
void find(const char* kind, bool write, int region, const char* at, int64_t n_bytes, void* from) {
  std::ostringstream key, where;
  key << kind << ' ' << (write ? "write" : "read") << ' ' << region << ' ' << n_bytes << ' '
      << static_cast<char*>(from) - &__executable_start;
  Finding& finding = findings[key.str()];
  if (!finding.count++) {
    where << ' ' << (region < 0 ? 0 : at - regions[region].begin);
    for (unsigned i : {block_index.x, block_index.y, block_index.z, thread_index.x, thread_index.y,
                       thread_index.z})
      where << ' ' << i;
    where << ' ' << (in_kernel ? kernel_name : "-");
    finding.where = where.str();
  }
}

// Notes what is wrong with an access; false if its thread must not make it.
bool may_go_on(char* at, int64_t n_bytes, bool write, void* from) {
  int inside = -1;
  for (size_t i = 0; i < regions.size() && inside < 0; ++i)
    if (is_in(regions[i], at, n_bytes)) inside = static_cast<int>(i);
  if (!in_kernel) {
    if (inside >= 0 && regions[inside].is_cuda) find("on_host", write, inside, at, n_bytes, from);
    return true;
  }
  if (inside < 0) {
    const char* here = static_cast<char*>(__builtin_frame_address(0));
    if (here <= at && at < stack_top) return true;
    if (&__executable_start <= at && at < &_end) return true;
    find("out_of_bounds", write, nearest(at), at, n_bytes, from);
    return false;
  }
  Region& region = regions[inside];
  if (!region.is_cuda) {
    find("on_cpu", write, inside, at, n_bytes, from);
    return false;
  }
  const int64_t offset = at - region.begin;
  for (int64_t grain = offset / GRAIN; grain <= (offset + n_bytes - 1) / GRAIN; ++grain) {
    unsigned& writer = region.writer[grain];
    if (!write && writer == UNWRITTEN) find("uninitialised", write, inside, at, n_bytes, from);
    if (!write) continue;
    const bool other = writer < WRITTEN_BEFORE && writer != thread_number;
    if (other && n_bytes >= GRAIN) find("race", write, inside, at, n_bytes, from);
    writer = thread_number;
  }
  return true;
}

void check(void* address, int64_t n_bytes, bool write, void* from) {
  // templates that this file shares with the module may be linked in their instrumented form
  static bool is_busy;
  if (is_busy) return;
  is_busy = true;
  const bool goes_on = may_go_on(static_cast<char*>(address), n_bytes, write, from);
  is_busy = false;
  if (!goes_on) longjmp(next_thread, 1);
}

void run_threads(void (*body)(void*), void* context) {
  for (Region& region : regions)
    for (unsigned& writer : region.writer)
      if (writer < WRITTEN_BEFORE) writer = WRITTEN_BEFORE;
  thread_number = 0;
  in_kernel = true;
  uint3 b, t;
  for (b.z = 0; b.z < grid_size.z; ++b.z)
    for (b.y = 0; b.y < grid_size.y; ++b.y)
      for (b.x = 0; b.x < grid_size.x; ++b.x)
        for (t.z = 0; t.z < block_size.z; ++t.z)
          for (t.y = 0; t.y < block_size.y; ++t.y)
            for (t.x = 0; t.x < block_size.x; ++t.x) {
              block_index = b;
              thread_index = t;
              if (!setjmp(next_thread)) body(context);
              thread_number = (thread_number + 1) % WRITTEN_BEFORE;
            }
  in_kernel = false;
}

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
      x.type = static_cast<c10::ScalarType>(type);
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
    std::fprintf(reply, "tensor %d %d %d %ld %ld %zu", static_cast<int>(y.type), y.is_cuda(),
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

std::shared_ptr<Storage> allocate(int64_t n_bytes, bool is_cuda) {
  if (n_bytes < 0) refuse("a tensor cannot have a negative size");
  const int64_t room = (n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + ALIGNMENT;
  for (int64_t reach : {GUARD_BYTES, SMALL_GUARD_BYTES}) {
    void* all = mmap(nullptr, room + 2 * reach, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) continue;
    char* data = static_cast<char*>(all) + reach;
    if (mprotect(data, room, PROT_READ | PROT_WRITE)) break;
    const int id = static_cast<int>(regions.size());
    auto storage = std::make_shared<Storage>(Storage{data, n_bytes, is_cuda, id});
    for (int64_t i = 0; i + 4 <= n_bytes; i += 4) std::memcpy(data + i, &POISON, 4);
    std::vector<unsigned> writer(n_bytes / GRAIN + 1, UNWRITTEN);
    regions.push_back({storage, data, n_bytes, reach, is_cuda, std::move(writer)});
    return storage;
  }
  refuse("out of memory");
}

void fill(Storage& storage, int64_t first_byte, const void* bytes, int64_t n_bytes) {
  if (bytes)
    std::memcpy(storage.data + first_byte, bytes, n_bytes);
  else
    std::memset(storage.data + first_byte, 0, n_bytes);
  std::vector<unsigned>& writer = regions[storage.id].writer;
  for (int64_t i = first_byte; i < first_byte + n_bytes; i += GRAIN)
    writer[i / GRAIN] = WRITTEN_BEFORE;
}

void refuse(const std::string& message) { throw c10::Error(message); }

void launch(const char* kernel, dim3 grid, dim3 block, size_t shared_bytes, void (*body)(void*),
            void* context) {
  const uint64_t n_threads = uint64_t{block.x} * block.y * block.z;
  const bool refused = !grid.x || !grid.y || !grid.z || !n_threads || grid.x > 0x7fffffffu ||
                       grid.y > 65535 || grid.z > 65535 || block.x > 1024 || block.y > 1024 ||
                       block.z > 64 || n_threads > 1024 || shared_bytes > 48 * 1024;
  std::fprintf(reply, "launch %u %u %u %u %u %u %d %s\n", grid.x, grid.y, grid.z, block.x, block.y,
               block.z, refused, kernel);
  std::fflush(reply);
  if (refused) {
    last_error = cudaErrorInvalidConfiguration;
    return;
  }
  kernel_name = kernel;
  grid_size = grid;
  block_size = block;
  run_threads(body, context);
}

}  // namespace cuda_host

cudaError_t cudaPeekAtLastError() { return cuda_host::last_error; }
cudaError_t cudaGetLastError() {
  const cudaError_t error = cuda_host::last_error;
  cuda_host::last_error = cudaSuccess;
  return error;
}
const char* cudaGetErrorString(cudaError_t error) {
  if (error == cudaSuccess) return "no error";
  return error == cudaErrorInvalidConfiguration ? "invalid configuration argument" : "invalid argument";
}
const char* cudaGetErrorName(cudaError_t error) {
  if (error == cudaSuccess) return "cudaSuccess";
  return error == cudaErrorInvalidConfiguration ? "cudaErrorInvalidConfiguration"
                                                : "cudaErrorInvalidValue";
}

namespace at {

Tensor empty(IntArrayRef sizes, TensorOptions options) {
  Tensor made;
  made.type = options.type;
  made.shape = sizes.values;
  made.steps.resize(made.shape.size());
  int64_t step = 1;
  for (size_t axis = made.shape.size(); axis-- > 0; step *= made.shape[axis]) made.steps[axis] = step;
  made.storage = cuda_host::allocate(made.numel() * made.element_size(), options.place == kCUDA);
  return made;
}

Tensor zeros(IntArrayRef sizes, TensorOptions options) {
  Tensor made = empty(sizes, options);
  cuda_host::fill(*made.storage, 0, nullptr, made.storage->n_bytes);
  return made;
}

bool Tensor::is_non_overlapping_and_dense() const {
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] != 1) axes.emplace_back(steps[axis], shape[axis]);
  std::sort(axes.begin(), axes.end());
  int64_t step = 1;
  for (const auto& [stride, size] : axes) {
    if (stride != step) return numel() == 0;
    step *= size;
  }
  return true;
}

Tensor empty_like(const Tensor& x, TensorOptions options) {
  Tensor made = empty(x.sizes(), options);
  if (x.is_non_overlapping_and_dense()) made.steps = x.steps;
  return made;
}

Tensor zeros_like(const Tensor& x, TensorOptions options) {
  Tensor made = empty_like(x, options);
  cuda_host::fill(*made.storage, 0, nullptr, made.storage->n_bytes);
  return made;
}

Tensor Tensor::copied_to(bool keep_order) const {
  Tensor made = keep_order ? empty_like(*this, options()) : empty(sizes(), options());
  for (int64_t i = 0; i < numel(); ++i) {
    int64_t from = first, to = 0, rest = i;
    for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) {
      from += rest % shape[axis] * steps[axis];
      to += rest % shape[axis] * made.steps[axis];
    }
    const int64_t size = element_size();
    cuda_host::fill(*made.storage, to * size, storage->data + from * size, size);
  }
  return made;
}

Tensor Tensor::view(IntArrayRef sizes) const {
  Tensor made = *this;
  int64_t known = 1, open = -1;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == -1)
      open = static_cast<int64_t>(axis);
    else
      known *= sizes[axis];
  }
  made.shape = sizes.values;
  if (open >= 0) made.shape[open] = known ? numel() / known : 0;
  if (!is_contiguous() || made.numel() != numel())
    cuda_host::refuse("view: the sizes do not fit, or the tensor is not contiguous");
  made.steps.assign(made.shape.size(), 1);
  for (size_t axis = made.shape.size(); axis-- > 1;)
    made.steps[axis - 1] = made.steps[axis] * made.shape[axis];
  return made;
}

}  // namespace at

#define CUDA_HOST_ACCESS(name, n_bytes, write)                                     \
  extern "C" void name(void* address) {                                            \
    cuda_host::check(address, n_bytes, write, __builtin_return_address(0));        \
  }
#define CUDA_HOST_ACCESSES(n)                              \
  CUDA_HOST_ACCESS(__tsan_read##n, n, false)               \
  CUDA_HOST_ACCESS(__tsan_write##n, n, true)               \
  CUDA_HOST_ACCESS(__tsan_unaligned_read##n, n, false)     \
  CUDA_HOST_ACCESS(__tsan_unaligned_write##n, n, true)     \
  CUDA_HOST_ACCESS(__tsan_volatile_read##n, n, false)      \
  CUDA_HOST_ACCESS(__tsan_volatile_write##n, n, true)
CUDA_HOST_ACCESSES(1)
CUDA_HOST_ACCESSES(2)
CUDA_HOST_ACCESSES(4)
CUDA_HOST_ACCESSES(8)
CUDA_HOST_ACCESSES(16)
extern "C" void __tsan_read_range(void* address, long n_bytes) {
  cuda_host::check(address, n_bytes, false, __builtin_return_address(0));
}
extern "C" void __tsan_write_range(void* address, long n_bytes) {
  cuda_host::check(address, n_bytes, true, __builtin_return_address(0));
}
// reference counts and the like: one thread runs at a time, so a plain operation is atomic
#define CUDA_HOST_ATOMIC(bits, type)                                                              \
  extern "C" type __tsan_atomic##bits##_load(const type* at, int) { return *at; }                 \
  extern "C" void __tsan_atomic##bits##_store(type* at, type value, int) { *at = value; }         \
  extern "C" type __tsan_atomic##bits##_exchange(type* at, type value, int) {                     \
    const type old = *at;                                                                         \
    *at = value;                                                                                  \
    return old;                                                                                   \
  }                                                                                               \
  extern "C" int __tsan_atomic##bits##_compare_exchange_strong(type* at, type* want, type value,  \
                                                               int, int) {                        \
    const bool same = *at == *want;                                                               \
    (same ? *at : *want) = same ? value : *at;                                                    \
    return same;                                                                                  \
  }                                                                                               \
  CUDA_HOST_FETCH(bits, type, add, old + value)                                                   \
  CUDA_HOST_FETCH(bits, type, sub, old - value)                                                   \
  CUDA_HOST_FETCH(bits, type, and, old & value)                                                   \
  CUDA_HOST_FETCH(bits, type, or, old | value)                                                    \
  CUDA_HOST_FETCH(bits, type, xor, old ^ value)
#define CUDA_HOST_FETCH(bits, type, name, result)                                                 \
  extern "C" type __tsan_atomic##bits##_fetch_##name(type* at, type value, int) {                 \
    const type old = *at;                                                                         \
    *at = static_cast<type>(result);                                                              \
    return old;                                                                                   \
  }
CUDA_HOST_ATOMIC(8, int8_t)
CUDA_HOST_ATOMIC(16, int16_t)
CUDA_HOST_ATOMIC(32, int32_t)
CUDA_HOST_ATOMIC(64, int64_t)
extern "C" void __tsan_atomic_thread_fence(int) {}
extern "C" void* __tsan_memcpy(void* to, const void* from, size_t n) { return memcpy(to, from, n); }
extern "C" void* __tsan_memmove(void* to, const void* from, size_t n) { return memmove(to, from, n); }
extern "C" void* __tsan_memset(void* to, int value, size_t n) { return memset(to, value, n); }
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_init() {}
extern "C" void __tsan_vptr_update(void**, void*) {}
extern "C" void __tsan_vptr_read(void**) {}

int main(int argc, char** argv) {
  using namespace cuda_host;
  stack_top = reinterpret_cast<char*>(argv);
  if (argc != 4 || !(reply = std::fopen(argv[2], "w"))) return 2;
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
