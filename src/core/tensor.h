// View: a non-owning strided view of memory. The type of all inputs and outputs of operators.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "core/check.h"
#include "core/device.h"
#include "core/dtype.h"

namespace fk {

inline constexpr int kMaxRank = 5;

// Extents of a tensor, outermost first. Stored inline: shapes are made in the token loop, which must not allocate.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const int64_t> extents) : rank_(static_cast<int>(extents.size())) {
    FK_CHECK(extents.size() <= kMaxRank);
    for (int i = 0; i < rank_; ++i) extents_[i] = extents[i];
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return extents_[i < 0 ? i + rank_ : i]; }
  int64_t& operator[](int i) { return extents_[i < 0 ? i + rank_ : i]; }
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= extents_[i];
    return n;
  }
  std::span<const int64_t> extents() const { return {extents_.data(), static_cast<size_t>(rank_)}; }
  std::string str() const;  // "[4, 64]"

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.extents_[i] != b.extents_[i]) return false;
    return true;
  }

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

// Shape and dtype of a tensor that need not exist yet.
struct TensorSpec {
  Shape shape;
  DType dtype = DType::kF32;

  size_t size_bytes() const { return static_cast<size_t>(shape.numel()) * dtype_size(dtype); }
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

class View {
 public:
  View() = default;
  // A dense, row-major view.
  View(void* data, const Shape& shape, DType dtype, Device device = kCpu);
  View(void* data, const TensorSpec& spec, Device device = kCpu) : View(data, spec.shape, spec.dtype, device) {}

  void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  const Shape& shape() const { return shape_; }
  TensorSpec spec() const { return {shape_, dtype_}; }
  int rank() const { return shape_.rank(); }
  int64_t size(int dim) const { return shape_[dim]; }
  int64_t stride(int dim) const { return strides_[dim]; }  // in elements
  int64_t numel() const { return shape_.numel(); }
  size_t size_bytes() const { return static_cast<size_t>(numel()) * dtype_size(dtype_); }

  // Dense row-major, with no gap between elements.
  bool contiguous() const;
  // The innermost dimension has no gaps: a row can be walked with a pointer.
  bool rows_contiguous() const { return rank() == 0 || size(-1) <= 1 || stride(-1) == 1; }

  template <class T>
  T* ptr() const {
    FK_CHECK(dtype_ == dtype_of<T>, "dtype of a view does not fit the pointer asked for");
    return static_cast<T*>(data_);
  }

  // Other views of the same memory.
  View narrow(int dim, int64_t start, int64_t length) const;
  View select(int dim, int64_t index) const;            // drops `dim`
  View reshape(const Shape& shape) const;               // contiguous views only
  View split_last(int64_t outer, int64_t inner) const;  // [.., outer*inner] -> [.., outer, inner], keeps strides
  View flatten_last() const;                            // [.., a, b] -> [.., a*b] where b is dense

  // Address of one element given by its index in every dimension.
  std::byte* at(std::span<const int64_t> index) const {
    int64_t offset = 0;
    for (size_t i = 0; i < index.size(); ++i) offset += index[i] * strides_[static_cast<int>(i)];
    return static_cast<std::byte*>(data_) + offset * static_cast<int64_t>(dtype_size(dtype_));
  }

  std::string str() const;  // "bf16[4, 64]"

 private:
  void* data_ = nullptr;
  Shape shape_;
  Shape strides_;
  DType dtype_ = DType::kF32;
  Device device_;
};

using OptView = std::optional<View>;

// Reads and writes elements as double, at an index given dimension by dimension; for oracles, whose tensors are f64.
template <class... Index>
double get(const View& v, Index... index) {
  const int64_t at[] = {static_cast<int64_t>(index)...};
  const void* address = v.at(at);
  return v.dtype() == DType::kF64 ? *static_cast<const double*>(address) : load_element(address, v.dtype());
}
template <class... Index>
void set(const View& v, double value, Index... index) {
  const int64_t at[] = {static_cast<int64_t>(index)...};
  void* address = v.at(at);
  if (v.dtype() == DType::kF64)
    *static_cast<double*>(address) = value;
  else
    store_element(address, v.dtype(), value);
}

// Element by element, converting between dtypes; both views have the same shape. Where one of them is not on the CPU,
// both must be contiguous and of one dtype.
void copy_elements(const View& from, const View& to);

}  // namespace fk
