#include "core/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/device_runtime.h"
#include "core/element_rows.h"

namespace fk {

std::string Shape::str() const { return fmt::format("[{}]", fmt::join(extents(), ", ")); }

View::View(void* data, const Shape& shape, DType dtype, Device device)
    : data_(data), shape_(shape), strides_(shape), dtype_(dtype), device_(device) {
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides_[i] = stride;
    stride *= shape[i];
  }
}

bool View::contiguous() const {
  int64_t expected = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (size(i) != 1 && stride(i) != expected) return numel() == 0;
    expected *= size(i);
  }
  return true;
}

View View::narrow(int dim, int64_t start, int64_t length) const {
  if (dim < 0) dim += rank();
  FK_CHECK(dim >= 0 && dim < rank() && start >= 0 && length >= 0 && start + length <= size(dim));
  View v = *this;
  v.data_ = static_cast<std::byte*>(data_) + start * stride(dim) * static_cast<int64_t>(dtype_size(dtype_));
  v.shape_[dim] = length;
  return v;
}

View View::select(int dim, int64_t index) const {
  if (dim < 0) dim += rank();
  View v = narrow(dim, index, 1);
  std::array<int64_t, kMaxRank> extents{}, strides{};
  int n = 0;
  for (int i = 0; i < rank(); ++i) {
    if (i == dim) continue;
    extents[n] = size(i);
    strides[n++] = stride(i);
  }
  v.shape_ = Shape(std::span(extents.data(), static_cast<size_t>(n)));
  v.strides_ = Shape(std::span(strides.data(), static_cast<size_t>(n)));
  return v;
}

View View::reshape(const Shape& shape) const {
  FK_CHECK(contiguous() && shape.numel() == numel());
  return View(data_, shape, dtype_, device_);
}

View View::split_last(int64_t outer, int64_t inner) const {
  FK_CHECK(rank() >= 1 && rank() < kMaxRank && size(-1) == outer * inner);
  std::array<int64_t, kMaxRank> extents{}, strides{};
  int n = rank() - 1;
  for (int i = 0; i < n; ++i) {
    extents[i] = size(i);
    strides[i] = stride(i);
  }
  extents[n] = outer;
  strides[n] = inner * stride(-1);
  extents[n + 1] = inner;
  strides[n + 1] = stride(-1);
  View v = *this;
  v.shape_ = Shape(std::span(extents.data(), static_cast<size_t>(n + 2)));
  v.strides_ = Shape(std::span(strides.data(), static_cast<size_t>(n + 2)));
  return v;
}

View View::flatten_last() const {
  FK_CHECK(rank() >= 2 && (stride(-2) == size(-1) * stride(-1) || size(-2) == 1 || numel() == 0));
  std::array<int64_t, kMaxRank> extents{}, strides{};
  int n = rank() - 2;
  for (int i = 0; i < n; ++i) {
    extents[i] = size(i);
    strides[i] = stride(i);
  }
  extents[n] = size(-2) * size(-1);
  strides[n] = stride(-1);
  View v = *this;
  v.shape_ = Shape(std::span(extents.data(), static_cast<size_t>(n + 1)));
  v.strides_ = Shape(std::span(strides.data(), static_cast<size_t>(n + 1)));
  return v;
}

std::string View::str() const { return fmt::format("{}{}", dtype_name(dtype_), shape_.str()); }

void copy_elements(const View& from, const View& to) {
  FK_CHECK(from.shape() == to.shape());
  if (from.device() != kCpu || to.device() != kCpu) return copy_between(from, to);
  if (from.numel() == 0) return;
  const bool same = from.dtype() == to.dtype();
  if (same && from.contiguous() && to.contiguous()) {
    std::memmove(to.data(), from.data(), from.size_bytes());
    return;
  }
  const int64_t n = from.rank() == 0 ? 1 : from.size(-1);
  const int64_t from_stride = n == 1 ? 1 : from.stride(-1), to_stride = n == 1 ? 1 : to.stride(-1);
  const auto from_size = static_cast<int64_t>(dtype_size(from.dtype()));
  const auto to_size = static_cast<int64_t>(dtype_size(to.dtype()));
  std::array<int64_t, kMaxRank> index{};  // of a row
  std::span<const int64_t> at(index.data(), static_cast<size_t>(from.rank()));
  for (int64_t row = 0, rows = from.numel() / n; row < rows; ++row) {
    const std::byte* source = from.at(at);
    std::byte* target = to.at(at);
    if (same && from_stride == 1 && to_stride == 1) {
      std::memmove(target, source, static_cast<size_t>(n * from_size));
    } else if (same) {
      for (int64_t i = 0; i < n; ++i)
        std::memcpy(target + i * to_stride * to_size, source + i * from_stride * from_size,
                    static_cast<size_t>(from_size));
    } else {
      std::array<double, 256> values;
      for (int64_t i = 0; i < n; i += static_cast<int64_t>(values.size())) {
        int64_t some = std::min(n - i, static_cast<int64_t>(values.size()));
        load_elements(source + i * from_stride * from_size, from.dtype(), from_stride, some, values.data());
        store_elements(target + i * to_stride * to_size, to.dtype(), to_stride, some, values.data());
      }
    }
    for (int d = from.rank() - 2; d >= 0 && ++index[static_cast<size_t>(d)] == from.size(d); --d)
      index[static_cast<size_t>(d)] = 0;
  }
}

}  // namespace fk
