#include "models/finite.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/check.h"
#include "core/device_runtime.h"
#include "models/convert.h"

namespace fk {

bool may_be_not_finite(DType dtype) { return dtype_is_weight(dtype) || dtype == DType::kF8E4M3; }

namespace {

// The exponent of a NaN or an infinity is all ones. The bits are tested, because compilers may assume that there is no
// NaN.
bool all_finite(const float* values, int64_t count) {
  return std::all_of(values, values + count,
                     [](float x) { return (std::bit_cast<uint32_t>(x) & 0x7f800000u) != 0x7f800000u; });
}

}  // namespace

bool all_finite(const View& tensor) {
  FK_CHECK(tensor.contiguous() && may_be_not_finite(tensor.dtype()));
  const bool on_host = tensor.device() == kCpu;
  if (tensor.dtype() == DType::kF8E4M3 && on_host) {  // no infinities, and one NaN of either sign
    const auto* codes = static_cast<const uint8_t*>(tensor.data());
    int64_t wrong = 0;
    for (int64_t i = 0; i < tensor.numel(); ++i) wrong += (codes[i] & 0x7f) == 0x7f;
    return wrong == 0;
  }
  // Logits of every request are checked, so that nothing is copied that need not be.
  if (tensor.dtype() == DType::kF32 && on_host) return all_finite(tensor.ptr<float>(), tensor.numel());
  if (!on_host)
    if (std::optional<bool> known = device_runtime(tensor.device()).all_finite(tensor)) return *known;
  const int64_t most = std::min<int64_t>(tensor.numel(), 1 << 16);
  auto size = static_cast<int64_t>(dtype_size(tensor.dtype()));
  std::vector<std::byte> piece(on_host ? 0 : static_cast<size_t>(most * size));
  std::vector<float> values(static_cast<size_t>(most));
  for (int64_t at = 0; at < tensor.numel(); at += most) {
    int64_t count = std::min(most, tensor.numel() - at);
    const std::byte* from = static_cast<const std::byte*>(tensor.data()) + at * size;
    if (!on_host) {
      device_runtime(tensor.device()).download(piece.data(), from, static_cast<size_t>(count * size));
      from = piece.data();
    }
    convert_elements(from, tensor.dtype(), values.data(), DType::kF32, count);
    if (!all_finite(values.data(), count)) return false;
  }
  return true;
}

}  // namespace fk
