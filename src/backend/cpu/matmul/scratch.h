// Scratch: memory a matrix product needs while it runs, kept by each thread and grown only when a larger call comes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/memory.h"

namespace fk {

class Scratch {
 public:
  // At least `size_bytes`, page-aligned, contents undefined. Valid until the next call on the same object.
  std::byte* at_least(size_t size_bytes) {
    if (buffer_.size() < size_bytes) buffer_ = Buffer(size_bytes < kHugePage ? kHugePage : size_bytes);
    return buffer_.data();
  }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;  // less than one would come in small pages, and miss the TLB
  Buffer buffer_;
};

// The calling thread's own. A product may use both at once: `shared` for what the caller packs for all threads (x),
// `panel` for what each thread packs for itself (blocks of w).
Scratch& shared_scratch();
Scratch& panel_scratch();

}  // namespace fk
