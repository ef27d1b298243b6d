// SharedTensors: tensors in memory that a judge fills and the processes it judges map.
//
// On the CPU each tensor ends where its pages end (but for what its size lacks to 64 bytes), and whoever maps them puts
// guard pages between, so that one step beyond the end is a fault and one before the start is a changed canary. On a
// GPU pages are too large for that: there canaries lie on both sides, at least a row of the tensor wide.
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

// Where a tensor lies in a segment; the same numbers on both sides of the process boundary.
struct TensorPlace {
  size_t extent_offset = 0;  // of its pages, from the start of the segment
  size_t extent_bytes = 0;
  size_t data_offset = 0;  // of its first element, from the start of its pages
  TensorSpec spec;
  int64_t row_gap = 0;  // elements between its rows

  size_t size_bytes() const { return bytes_with_gaps(spec, row_gap); }  // from its first element to its last
};

// Of runners; the judge may always write. A GPU lets them write all the same, so there it is checked afterwards.
enum class Access : uint8_t { kReadOnly, kWritable };

class SharedTensors {
 public:
  // Names are what a fault beside a tensor is reported with.
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

  // Paints what lies beside tensor i, and between its rows; intact() tells whether that is still so. The second on the
  // CPU only: on a GPU the caller takes fingerprints of margins(), of many tensors at once.
  void paint_margins(size_t i, uint8_t pattern) const;
  bool margins_intact(size_t i, uint8_t pattern) const;
  std::array<DeviceRange, 2> margins(size_t i) const;

  // On a GPU: keeps fingerprints of all tensors, and names one that is no longer as it was. On the CPU read-only memory
  // is sealed, and nothing can change it.
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

// What an address that could not be touched was meant for, by its distance from MappedTensors::address().
struct TensorNeighbour {
  bool found = false;
  size_t tensor = 0;
  bool inside = false;  // of the tensor's own pages: a write to something read-only
};
TensorNeighbour tensor_near(const std::vector<TensorPlace>& places, uint64_t distance);

// The same tensors as another process sees them: guard pages around each.
class MappedTensors {
 public:
  MappedTensors(int fd, std::vector<TensorPlace> places, Access access, Device device = kCpu);  // takes the descriptor
  ~MappedTensors();
  MappedTensors(const MappedTensors&) = delete;
  MappedTensors& operator=(const MappedTensors&) = delete;

  View view(size_t i) const;
  const void* address() const { return base_; }  // of the first guard page

 private:
  std::vector<TensorPlace> places_;
  std::vector<size_t> starts_;  // of each extent, from base_
  Device device_;
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
  std::unique_ptr<SharedDeviceMemory> on_device_;

  void map_between_guards(int fd, Access access);
};

}  // namespace fk
