// GuardedTensor: a tensor with canaries around it, aligned or misaligned, so that out-of-bounds accesses are detected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory.h"
#include "core/tensor.h"

namespace fk::conformance {

enum class Placement : uint8_t {
  kAligned,      // starts on a cache line, dense
  kMisaligned,   // one element past a cache line, dense
  kStridedRows,  // gaps between rows of tokens, guarded too
};

std::string_view placement_name(Placement placement);

// Tensors that hold one row per token may have gaps between rows; tables, caches and weights are dense.
bool may_have_strided_rows(const TensorSpec& spec);

// The fence is made of 0xff bytes: a NaN in every float format, so reading it by accident shows in the result as well.
// The tensor can be on any device; checks are made on the CPU.
class GuardedTensor {
 public:
  // With the elements of `content`, which is on the CPU.
  GuardedTensor(const View& content, Placement placement, Device device = kCpu);
  // To be poisoned before each call.
  GuardedTensor(const TensorSpec& spec, Placement placement, Device device = kCpu);

  const View& view() const { return view_; }  // on the device
  // On the CPU: what the tensor held at the last look().
  const View& seen() const { return seen_view_; }
  void look();

  // While armed, the address sanitizer (if the build has it) reports any access to the fence, reads included.
  void arm() const;
  void disarm() const;

  void restore();                  // the content as it was at first
  void poison(std::byte pattern);  // every element; the fence stays
  // As of the last look(): empty, or where the memory differs from what it should hold.
  std::string fence_damage() const;
  std::string change() const;  // of fence or content

  std::vector<std::byte> bytes() const;  // the elements, dense

 private:
  void place(const TensorSpec& spec, Placement placement);
  View window(std::byte* region, Device device) const;
  void put(const std::byte* image);
  std::string describe(size_t byte) const;
  // Calls visit(offset, length) for every row of elements; what lies between them is fence.
  template <class Visit>
  void each_row(Visit&& visit) const {
    for (size_t r = 0; r < rows_; ++r) visit(before_ + r * pitch_, width_);
  }

  Device device_;
  std::unique_ptr<std::byte[]> memory_;
  std::byte* start_ = nullptr;       // of the fenced region on the CPU: the tensor itself, or what was seen of it
  std::optional<Buffer> on_device_;  // the fenced region, where the tensor lives elsewhere
  std::vector<std::byte> image_;     // what the region holds when nothing touched it
  // In bytes: from start_ to the first row, length of a row, from row to row.
  size_t before_ = 0, width_ = 0, pitch_ = 0, rows_ = 0;
  TensorSpec spec_;
  bool strided_ = false;
  View view_, seen_view_;
};

}  // namespace fk::conformance
