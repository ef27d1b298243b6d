// One element of a known type, read or written as double.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/check.h"
#include "core/dtype.h"

namespace fk {

template <class T>
double load_as(const void* address) {
  std::conditional_t<std::is_same_v<T, bool>, uint8_t, T> x;  // any byte but 0 is true
  std::memcpy(&x, address, sizeof x);
  if constexpr (std::is_same_v<T, bool>)
    return x != 0;
  else if constexpr (std::is_class_v<T>)
    return static_cast<double>(static_cast<float>(x));
  else
    return static_cast<double>(x);
}

// Float by rounding to odd: a bit lost here stays visible to the narrower rounding that follows, which so rounds once.
inline float round_to_odd(double value) {
  auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;  // towards zero, which infinity leaves too
  return std::bit_cast<float>(bits | 1u);
}

template <class T>
void store_as(void* address, double value) {
  T x;
  if constexpr (std::is_class_v<T>)
    x = T(round_to_odd(value));
  else
    x = static_cast<T>(value);
  std::memcpy(address, &x, sizeof x);
}

// visit(std::type_identity<T>{}) with the type that holds elements of this dtype.
template <class Visit>
decltype(auto) with_element_type(DType t, Visit&& visit) {
  switch (t) {
    case DType::kF64:
      return visit(std::type_identity<double>{});
    case DType::kF32:
      return visit(std::type_identity<float>{});
    case DType::kF16:
      return visit(std::type_identity<f16>{});
    case DType::kBF16:
      return visit(std::type_identity<bf16>{});
    case DType::kF8E4M3:
      return visit(std::type_identity<f8e4m3>{});
    case DType::kF8E5M2:
      return visit(std::type_identity<f8e5m2>{});
    case DType::kI8:
      return visit(std::type_identity<int8_t>{});
    case DType::kU8:
      return visit(std::type_identity<uint8_t>{});
    case DType::kI32:
      return visit(std::type_identity<int32_t>{});
    case DType::kI64:
      return visit(std::type_identity<int64_t>{});
    case DType::kBool:
      return visit(std::type_identity<bool>{});
  }
  FK_CHECK(false, "unknown dtype");
}

}  // namespace fk
