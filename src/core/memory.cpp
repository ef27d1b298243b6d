#include "core/memory.h"

#include <sys/mman.h>

#include <algorithm>

#include "core/device_runtime.h"
#include "core/error.h"

namespace fk {
namespace {
constexpr size_t kPage = size_t{64} << 10;  // the largest base page in use (aarch64 kernels with 64 KiB pages)
constexpr size_t kHugePage = size_t{2} << 20;
}  // namespace

Buffer::Buffer(size_t size_bytes, Device device) : device_(device) {
  if (size_bytes == 0) return;
  if (device == kCpu) {
    map_host_pages(size_bytes);
    return;
  }
  DeviceRuntime& runtime = device_runtime(device);
  data_ = static_cast<std::byte*>(runtime.allocate(size_bytes));
  size_ = size_bytes;
  runtime.fill(data_, std::byte{0}, size_bytes);
}

void Buffer::map_host_pages(size_t size_bytes) {
  size_t requested = size_bytes;
  size_bytes = (size_bytes + kPage - 1) / kPage * kPage;
  // Over-reserve by one huge page so that large buffers can start on one; untouched pages use no memory.
  size_t slack = size_bytes >= kHugePage ? kHugePage : 0;
  void* raw = MAP_FAILED;
  if (requested <= PTRDIFF_MAX) {  // beyond, the sums above wrap around to something small
    raw = mmap(nullptr, size_bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (raw == MAP_FAILED) {
    throw Error("The system refused {:.1f} MiB of memory; use a smaller model, batch or context.",
                static_cast<double>(requested) / 0x1p20);
  }
  data_ = static_cast<std::byte*>(raw);
  size_ = size_bytes;
  if (slack != 0) {
    auto address = reinterpret_cast<uintptr_t>(raw);
    size_t head = (kHugePage - address % kHugePage) % kHugePage;
    if (head != 0) munmap(data_, head);
    if (slack - head != 0) munmap(data_ + head + size_bytes, slack - head);
    data_ += head;
    madvise(data_, size_bytes, MADV_HUGEPAGE);
  }
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (device_ == kCpu)
    munmap(data_, size_);
  else
    device_runtime(device_).release(data_);
}

std::byte* Tensor::no_elements() {
  alignas(64) static std::byte nothing[64];
  return nothing;
}

View Arena::make(const TensorSpec& spec) {
  constexpr size_t kAlignment = 256;  // the alignment of device allocators, and a multiple of a cache line on the CPU
  size_t bytes = (spec.size_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  while (at_.chunk < chunks_.size() && at_.used + bytes > chunks_[at_.chunk].size()) at_ = {at_.chunk + 1, 0};
  if (at_.chunk == chunks_.size()) {
    constexpr size_t kSmallest = size_t{1} << 20;
    chunks_.emplace_back(std::max({bytes, capacity_bytes() / 2, kSmallest}), device_);
  }
  View view(chunks_[at_.chunk].data() + at_.used, spec, device_);
  at_.used += bytes;
  return view;
}

void Arena::reset() {
  at_ = {};
  if (chunks_.size() <= 1) return;
  size_t all = capacity_bytes();
  chunks_.clear();
  chunks_.emplace_back(all, device_);
}

size_t Arena::capacity_bytes() const {
  size_t all = 0;
  for (const Buffer& chunk : chunks_) all += chunk.size();
  return all;
}

}  // namespace fk
