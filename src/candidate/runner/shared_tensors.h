// SharedTensors: tensors in memory that a judge fills and the processes it judges map.
//
// Each tensor ends where its pages end (but for what its size lacks to 64 bytes), and whoever maps them puts guard
// pages between, so that one step beyond the end is a fault and one before the start is a changed canary.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

enum class Access : uint8_t { kReadOnly, kWritable };  // of runners; the judge may always write

class SharedTensors {
 public:
  // Names are what a fault beside a tensor is reported with.
  struct Named {
    std::string name;
    TensorSpec spec;
    int64_t row_gap = 0;
  };
  SharedTensors(std::vector<Named> tensors, Access access);
  ~SharedTensors();
  SharedTensors(const SharedTensors&) = delete;
  SharedTensors& operator=(const SharedTensors&) = delete;

  size_t size() const { return places_.size(); }
  const std::vector<TensorPlace>& places() const { return places_; }
  const std::string& name(size_t i) const { return names_[i]; }
  View view(size_t i) const;
  int fd() const { return fd_; }
  Access access() const { return access_; }
  size_t size_bytes() const { return bytes_; }

  // Paints what lies beside tensor i in its pages, and between its rows; intact() tells whether that is still so.
  void paint_margins(size_t i, uint8_t pattern) const;
  bool margins_intact(size_t i, uint8_t pattern) const;

 private:
  std::vector<TensorPlace> places_;
  std::vector<std::string> names_;
  Access access_;
  int fd_ = -1;
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
};

// The same tensors as another process sees them: guard pages around each.
class MappedTensors {
 public:
  MappedTensors(int fd, std::vector<TensorPlace> places, Access access);  // takes the descriptor
  ~MappedTensors();
  MappedTensors(const MappedTensors&) = delete;
  MappedTensors& operator=(const MappedTensors&) = delete;

  View view(size_t i) const;

  // What an address that could not be touched was meant for.
  struct Neighbour {
    bool found = false;
    size_t tensor = 0;
    bool inside = false;  // of the tensor's own pages: a write to something read-only
  };
  Neighbour neighbour(const void* address) const;

 private:
  std::vector<TensorPlace> places_;
  std::vector<size_t> starts_;  // of each extent, from base_
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace fk
