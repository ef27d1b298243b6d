// HostStaging: host memory for inputs of a model, kept from pass to pass. For a model on a device it is pinned, so that
// copies to the device run at the full speed of the bus.
#pragma once

#include "core/device_runtime.h"
#include "core/memory.h"

namespace fk {

class HostStaging {
 public:
  explicit HostStaging(Device device) : device_(device) {}
  ~HostStaging() { release(); }
  HostStaging(const HostStaging&) = delete;
  HostStaging& operator=(const HostStaging&) = delete;

  // What was there before is lost when the memory has to grow.
  View grown(const Shape& shape, DType dtype) {
    const size_t bytes = TensorSpec{shape, dtype}.size_bytes();
    if (device_ == kCpu) {
      if (pages_.size() < bytes) pages_ = Buffer(bytes);
      return View(pages_.data(), shape, dtype);
    }
    if (pinned_bytes_ < bytes) {
      release();
      pinned_ = device_runtime(device_).allocate_host(bytes);
      pinned_bytes_ = bytes;
    }
    return View(pinned_, shape, dtype);
  }

 private:
  void release() noexcept {
    if (pinned_ != nullptr) device_runtime(device_).release_host(pinned_);
    pinned_ = nullptr;
    pinned_bytes_ = 0;
  }

  Device device_;
  Buffer pages_;
  void* pinned_ = nullptr;
  size_t pinned_bytes_ = 0;
};

}  // namespace fk
