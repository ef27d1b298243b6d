// Owned memory: a Buffer of bytes and the Tensor that owns one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace fk {

// Memory of a device, zero at first; on the CPU page-aligned, in huge pages where the system grants them. Moves, never
// copies.
class Buffer {
 public:
  Buffer() = default;
  // Throws Error with the sizes if the device's memory is exhausted.
  explicit Buffer(size_t size_bytes, Device device = kCpu);
  ~Buffer();
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), device_(other.device_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(device_, other.device_);
    return *this;
  }

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  Device device() const { return device_; }

 private:
  void map_host_pages(size_t size_bytes);

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  Device device_ = kCpu;
};

// A dense tensor and its memory.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const TensorSpec& spec, Device device = kCpu)
      : buffer_(spec.size_bytes(), device),
        view_(buffer_.data() != nullptr ? buffer_.data() : no_elements(), spec, device) {}
  Tensor(const Shape& shape, DType dtype, Device device = kCpu) : Tensor(TensorSpec{shape, dtype}, device) {}

  const View& view() const { return view_; }
  operator View() const { return view_; }  // NOLINT: a tensor is where a view is wanted
  template <class T>
  T* ptr() const {
    return view_.ptr<T>();
  }

 private:
  // The address of empty tensors: memcpy and similar functions must not get null, not even for zero bytes.
  static std::byte* no_elements();

  Buffer buffer_;
  View view_;
};

// Bump allocation for the tensors of one step. Memory is kept when tensors are released, so a loop of equal steps
// allocates in its first round only.
class Arena {
 public:
  struct Mark {
    size_t chunk = 0;
    size_t used = 0;
  };

  Arena() = default;
  explicit Arena(Device device) : device_(device) {}

  View make(const TensorSpec& spec);

  // release() frees the tensors made after mark(): scratch inside an operator.
  Mark mark() const { return at_; }
  void release(Mark mark) { at_ = mark; }
  // Frees everything. If a large step needed several chunks, they are replaced by one chunk.
  void reset();

  size_t capacity_bytes() const;

 private:
  Device device_ = kCpu;
  std::vector<Buffer> chunks_;
  Mark at_;
};

}  // namespace fk
