// What torch.h declares of tensors: their memory, and how they are made. Part of runtime.cpp.
#pragma once

#include <sys/mman.h>

#include "accesses.h"

namespace cuda_host {

void refuse(const std::string& message) { throw c10::Error(message); }

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
    regions.push_back({data, n_bytes, reach, is_cuda, std::move(writer)});
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

}  // namespace cuda_host

namespace at {

Tensor empty(IntArrayRef sizes, TensorOptions options) {
  Tensor made;
  made.kind = options.type;
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

Tensor Tensor::flatten(int64_t start, int64_t end) const {
  if (!dim()) return reshape(1);
  const int64_t from = start < 0 ? start + dim() : start, to = end < 0 ? end + dim() : end;
  if (from < 0 || to >= dim() || from > to) cuda_host::refuse("flatten: there are no such axes");
  int64_t joined = 1;
  for (int64_t axis = from; axis <= to; ++axis) joined *= shape[axis];
  std::vector<int64_t> sizes(shape.begin(), shape.begin() + from);
  sizes.push_back(joined);
  sizes.insert(sizes.end(), shape.begin() + to + 1, shape.end());
  return reshape(sizes);
}

}  // namespace at
