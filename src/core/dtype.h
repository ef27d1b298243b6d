// Element types of tensors, and the bit-exact conversions between the narrow floats and float.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace fk {

enum class DType : uint8_t { kF64, kF32, kF16, kBF16, kF8E4M3, kF8E5M2, kI8, kU8, kI32, kI64, kBool };

inline constexpr DType kAllDTypes[] = {DType::kF64,    DType::kF32,    DType::kF16, DType::kBF16,
                                       DType::kF8E4M3, DType::kF8E5M2, DType::kI8,  DType::kU8,
                                       DType::kI32,    DType::kI64,    DType::kBool};

constexpr size_t dtype_size(DType t) {
  switch (t) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    default:
      return 1;
  }
}

constexpr bool dtype_is_float(DType t) { return t <= DType::kF8E5M2; }

// Distance from 1 to the next representable number; 0 for integers, which are exact.
constexpr double dtype_epsilon(DType t) {
  switch (t) {
    case DType::kF64:
      return 0x1p-52;
    case DType::kF32:
      return 0x1p-23;
    case DType::kF16:
      return 0x1p-10;
    case DType::kBF16:
      return 0x1p-7;
    case DType::kF8E4M3:
      return 0x1p-3;
    case DType::kF8E5M2:
      return 0x1p-2;
    default:
      return 0;
  }
}

std::string_view dtype_name(DType t);  // "bf16"
std::optional<DType> dtype_from_name(
    std::string_view name);  // also "bfloat16", "float32", ... as HF and torch spell them

struct bf16 {
  uint16_t bits;

  bf16() = default;
  explicit bf16(float x) {
    uint32_t u = std::bit_cast<uint32_t>(x);
    // Round to nearest even; a NaN keeps its sign and stays quiet instead of rounding up to infinity.
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? ((u >> 16) | 0x40u) : rounded);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

struct f16 {
  uint16_t bits;

  f16() = default;
  explicit f16(float x);
  explicit operator float() const;
};

struct f8e4m3 {  // the "fn" variant: no infinity, 0x7f and 0xff are NaN, largest value 448
  uint8_t bits;

  f8e4m3() = default;
  explicit f8e4m3(float x);  // values beyond 448 become NaN, as in PyTorch
  explicit operator float() const;
};

struct f8e5m2 {  // a half without its low byte: has infinities
  uint8_t bits;

  f8e5m2() = default;
  explicit f8e5m2(float x);
  explicit operator float() const;
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<f16> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<f8e4m3> {
  static constexpr DType value = DType::kF8E4M3;
};
template <>
struct DTypeOf<f8e5m2> {
  static constexpr DType value = DType::kF8E5M2;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kI8;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};

template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

// One element read or written as double, whatever it is stored as. For oracles and checks, not for inner loops.
double load_element(const void* address, DType t);
void store_element(void* address, DType t, double value);

}  // namespace fk
