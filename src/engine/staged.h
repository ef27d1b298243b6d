// Staged: an array on the model's device that the host fills anew for every step. Uploads are asynchronous, so the host
// writes into two pinned buffers in turn. On the CPU there is one buffer, which is the array.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "core/device_runtime.h"
#include "core/memory.h"

namespace fk {

// Whose turn it is of the two buffers, for all arrays that are uploaded together.
class StagingTurns {
 public:
  explicit StagingTurns(Device device);
  StagingTurns(const StagingTurns&) = delete;
  StagingTurns& operator=(const StagingTurns&) = delete;

  Device device() const { return device_; }
  size_t buffer() const { return buffer_; }

  // The other buffers' turn; waits until they have been uploaded.
  void begin();
  // All of them have been pushed.
  void end();

 private:
  Device device_;
  size_t buffer_ = 0;
  std::array<std::unique_ptr<DeviceEvent>, 2> uploaded_;  // none: nothing to wait for
};

// Pinned host memory.
class PinnedBuffer {
 public:
  PinnedBuffer(size_t size_bytes, Device device);
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  void* data() const { return data_; }

 private:
  DeviceRuntime& runtime_;
  void* data_;
};

template <class T>
class Staged {
 public:
  // `turns` must outlive it.
  Staged(const Shape& shape, const StagingTurns& turns) : turns_(turns), array_(shape, dtype_of<T>, turns.device()) {
    if (turns.device() == kCpu) return;
    for (auto& buffer : pinned_) buffer = std::make_unique<PinnedBuffer>(array_.view().size_bytes(), turns.device());
  }

  T* host() const {
    const auto& buffer = pinned_[turns_.buffer()];
    return buffer ? static_cast<T*>(buffer->data()) : array_.template ptr<T>();
  }
  // The device's array.
  const View& view() const { return array_.view(); }

  // Copies the first `count` elements to the device in stream order.
  void push(int64_t count) const {
    if (turns_.device() == kCpu || count == 0) return;
    device_runtime(turns_.device()).upload(view().data(), host(), static_cast<size_t>(count) * sizeof(T));
  }

 private:
  const StagingTurns& turns_;
  Tensor array_;
  std::array<std::unique_ptr<PinnedBuffer>, 2> pinned_;
};

}  // namespace fk
