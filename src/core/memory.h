// Owned memory: a Buffer of bytes and the Tensor that owns one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace fk {

// Page-aligned anonymous memory, zero at first, in huge pages where the system grants them. Moves, never copies.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t size_bytes);  // throws Error with the numbers when the system has no more
  ~Buffer();
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A dense tensor and its memory.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const TensorSpec& spec) : buffer_(spec.size_bytes()), view_(buffer_.data(), spec) {}
  Tensor(const Shape& shape, DType dtype) : Tensor(TensorSpec{shape, dtype}) {}

  const View& view() const { return view_; }
  operator View() const { return view_; }  // NOLINT: a tensor is where a view is wanted
  template <class T>
  T* ptr() const { return view_.ptr<T>(); }

 private:
  Buffer buffer_;
  View view_;
};

// Bump allocation for the tensors of one step. reset() frees all of them at once and keeps the memory, so a loop of
// equal steps allocates in its first round only.
class Arena {
 public:
  explicit Arena(size_t size_bytes = 0) : buffer_(size_bytes) {}

  View make(const TensorSpec& spec);
  void reset();

  // Tensors made after mark() die at release(mark), the others live on: scratch inside an operator.
  size_t mark() const { return used_; }
  void release(size_t mark);

  size_t peak_bytes() const { return peak_; }

 private:
  static constexpr size_t kAlignment = 64;

  struct Chunk {
    size_t start;  // used_ when it was made
    Buffer buffer;
  };

  Buffer buffer_;
  size_t used_ = 0;  // bytes handed out, overflow chunks included
  size_t peak_ = 0;
  std::vector<Chunk> overflow_;  // when a step outgrows the buffer; reset() then grows it to the peak
};

}  // namespace fk
