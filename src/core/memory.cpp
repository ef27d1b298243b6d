#include "core/memory.h"

#include <sys/mman.h>

#include "core/error.h"

namespace fk {
namespace {
constexpr size_t kPage = size_t{64} << 10;  // the largest base page in use (aarch64 kernels with 64 KiB pages)
constexpr size_t kHugePage = size_t{2} << 20;
}

Buffer::Buffer(size_t size_bytes) {
  if (size_bytes == 0) return;
  size_t requested = size_bytes;
  size_bytes = (size_bytes + kPage - 1) / kPage * kPage;
  // Over-reserve by one huge page so that large buffers can start on one; untouched pages cost nothing.
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
  if (data_ != nullptr) munmap(data_, size_);
}

View Arena::make(const TensorSpec& spec) {
  size_t bytes = (spec.size_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  size_t start = used_;
  used_ += bytes;
  if (used_ > peak_) peak_ = used_;
  if (used_ <= buffer_.size()) return View(buffer_.data() + start, spec);
  overflow_.push_back({start, Buffer(bytes)});
  return View(overflow_.back().buffer.data(), spec);
}

void Arena::release(size_t mark) {
  used_ = mark;
  while (!overflow_.empty() && overflow_.back().start >= mark) overflow_.pop_back();
}

void Arena::reset() {
  release(0);
  if (peak_ > buffer_.size()) buffer_ = Buffer(peak_ + peak_ / 8);
}

}  // namespace fk
