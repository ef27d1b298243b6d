// Mirrored: an array with a copy on the host and one on the model's device. On the CPU both are the same memory.
#pragma once

#include "core/device_runtime.h"
#include "core/memory.h"

namespace fk {

template <class T>
class Mirrored {
 public:
  Mirrored(const Shape& shape, Device device) : host_(shape, dtype_of<T>) {
    if (device != kCpu) device_.emplace(shape, dtype_of<T>, device);
  }

  T* host() const { return host_.ptr<T>(); }
  // The device's copy.
  const View& view() const { return device_ ? device_->view() : host_.view(); }

  // Copies the first `count` numbers to the device in stream order, or back.
  void push(int64_t count) const {
    if (device_ && count > 0) runtime().upload(view().data(), host(), bytes(count));
  }
  void pull(int64_t count) const {
    if (device_ && count > 0) runtime().download(host(), view().data(), bytes(count));
  }

 private:
  DeviceRuntime& runtime() const { return device_runtime(view().device()); }
  static size_t bytes(int64_t count) { return static_cast<size_t>(count) * sizeof(T); }

  Tensor host_;
  std::optional<Tensor> device_;
};

}  // namespace fk
