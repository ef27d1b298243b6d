// SharedTensors: tensors in memory that a judge fills and the judged processes map.
//
// On the CPU each tensor ends where its pages end (except for padding to 64 bytes), and the process that maps them puts
// guard pages between them: an access after the end is a fault, a write before the start changes a canary. On a GPU
// pages are too large for that: there canaries are on both sides, at least as wide as a row of the tensor.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/device_judging.h"
#include "ops/materialize.h"

namespace fk {

// Position of a tensor in a segment; the same numbers on both sides of the process boundary.
struct TensorPlace {
  size_t extent_offset = 0;  // of its pages, from the start of the segment
  size_t extent_bytes = 0;
  size_t data_offset = 0;  // of its first element, from the start of its pages
  TensorSpec spec;
  int64_t row_gap = 0;  // elements between its rows

  size_t size_bytes() const { return bytes_with_gaps(spec, row_gap); }  // from its first element to its last
};

// For runners; the judge may always write. A GPU cannot enforce it, so there it is checked afterwards.
enum class Access : uint8_t { kReadOnly, kWritable };

class SharedTensors {
 public:
  // The name is used in messages about a fault near the tensor.
  struct Named {
    std::string name;
    TensorSpec spec;
    int64_t row_gap = 0;
  };
  SharedTensors(const std::vector<Named>& tensors, Access access, Device device = kCpu);
  ~SharedTensors();
  SharedTensors(const SharedTensors&) = delete;
  SharedTensors& operator=(const SharedTensors&) = delete;

  size_t size() const { return places_.size(); }
  const std::vector<TensorPlace>& places() const { return places_; }
  const std::string& name(size_t i) const { return names_[i]; }
  View view(size_t i) const;
  int fd() const { return fd_; }
  Access access() const { return access_; }
  Device device() const { return device_; }
  size_t size_bytes() const { return bytes_; }

  // Fills the margins of tensor i and the gaps between its rows; intact() checks that they are unchanged. intact() is
  // for the CPU only: on a GPU the caller takes fingerprints of the margins() of many tensors at once.
  void paint_margins(size_t i, uint8_t pattern) const;
  bool margins_intact(size_t i, uint8_t pattern) const;
  std::array<DeviceRange, 2> margins(size_t i) const;

  // On a GPU: stores fingerprints of all tensors, and later finds one that has changed. On the CPU read-only memory is
  // sealed and cannot change.
  void remember();
  std::optional<std::string> changed() const;

 private:
  std::vector<TensorPlace> places_;
  std::vector<std::string> names_;
  Access access_;
  Device device_;
  int fd_ = -1;
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
  std::unique_ptr<SharedDeviceMemory> on_device_;
  std::vector<uint64_t> remembered_;

  void lay_out(const std::vector<Named>& tensors);
  void map_host_memory();
  std::vector<uint64_t> fingerprints() const;
};

DeviceRange range_of(const View& view);

// The tensor next to a faulting address, given by its distance from MappedTensors::address().
struct TensorNeighbour {
  bool found = false;
  size_t tensor = 0;
  bool inside = false;  // in the tensor's own pages: a write to read-only memory
};
TensorNeighbour tensor_near(const std::vector<TensorPlace>& places, uint64_t distance);

// The same tensors mapped into another process, with guard pages around each.
class MappedTensors {
 public:
  // Takes the descriptor. `wanted`: the address, if it is free; null: any.
  MappedTensors(int fd, std::vector<TensorPlace> places, Access access, Device device = kCpu, void* wanted = nullptr);
  ~MappedTensors();
  MappedTensors(const MappedTensors&) = delete;
  MappedTensors& operator=(const MappedTensors&) = delete;

  View view(size_t i) const;
  const void* address() const { return base_; }  // of the first guard page
  const void* end() const { return base_ + bytes_; }

 private:
  std::vector<TensorPlace> places_;
  std::vector<size_t> starts_;  // of each extent, from base_
  Device device_;
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
  std::unique_ptr<SharedDeviceMemory> on_device_;

  void map_between_guards(int fd, Access access, void* wanted);
};

}  // namespace fk
