// Arrivals: counters on the device that are zero between calls, enough for the largest call so far.
#pragma once

#include <cstdint>

#include "core/memory.h"

namespace fk::cuda {

class Arrivals {
 public:
  // At least `count` of them. Grows outside of recorded work only: a first call is made unrecorded.
  int32_t* at_least(int64_t count, Device device) {
    auto bytes = static_cast<size_t>(count) * sizeof(int32_t);
    if (memory_.size() < bytes) memory_ = Buffer(bytes, device);
    return reinterpret_cast<int32_t*>(memory_.data());
  }

 private:
  Buffer memory_;
};

}  // namespace fk::cuda
