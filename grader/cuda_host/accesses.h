// Checks every access to memory of the module's code, and runs the threads of a launch.
//
// The module is compiled so that each access first calls __tsan_read4 or its like, as if for a thread
// sanitizer; that sanitizer is not linked, the functions are here. So an access is known before it
// happens, and a thread whose access lies outside every tensor ends there. Part of runtime.cpp.
#pragma once

#include <csetjmp>
#include <map>
#include <sstream>

#include "torch.h"

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

// A place that another thread wrote before the one that runs, and what that one left there.
struct Suspect {
  int region;
  int64_t offset;
  char* at;
  int64_t n_bytes;
  void* from;
  unsigned value;
};

std::vector<Region> regions;
std::vector<Suspect> suspects;
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
    if (other && n_bytes >= GRAIN) suspects.push_back({inside, grain * GRAIN, at, n_bytes, from, 0});
    if (other && n_bytes >= GRAIN)
      std::memcpy(&suspects.back().value, region.begin + grain * GRAIN, GRAIN);
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

// At a thread's end: who writes what is there already takes nothing from another.
void find_races() {
  for (const Suspect& suspect : suspects) {
    const char* now = regions[suspect.region].begin + suspect.offset;
    if (std::memcmp(now, &suspect.value, GRAIN))
      find("race", true, suspect.region, suspect.at, suspect.n_bytes, suspect.from);
  }
  suspects.clear();
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
              if (!suspects.empty()) find_races();
              thread_number = (thread_number + 1) % WRITTEN_BEFORE;
            }
  in_kernel = false;
}

}  // namespace

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
// a struct that is copied, in newer versions of clang
#define CUDA_HOST_COPY(name)                                                       \
  extern "C" void* __tsan_##name(void* to, const void* from, size_t n_bytes) {     \
    void* const caller = __builtin_return_address(0);                              \
    cuda_host::check(const_cast<void*>(from), int64_t(n_bytes), false, caller);    \
    cuda_host::check(to, int64_t(n_bytes), true, caller);                          \
    return name(to, from, n_bytes);                                                \
  }
CUDA_HOST_COPY(memcpy)
CUDA_HOST_COPY(memmove)
extern "C" void* __tsan_memset(void* to, int value, size_t n_bytes) {
  cuda_host::check(to, int64_t(n_bytes), true, __builtin_return_address(0));
  return memset(to, value, n_bytes);
}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_init() {}
extern "C" void __tsan_vptr_update(void**, void*) {}
extern "C" void __tsan_vptr_read(void**) {}
