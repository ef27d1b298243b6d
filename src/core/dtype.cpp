#include "core/dtype.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"

namespace fk {
namespace {

struct Name {
  std::string_view name;
  DType dtype;
};

// The first spelling of a dtype is ours; the rest are those of torch, numpy and safetensors.
constexpr Name kNames[] = {
    {"f64", DType::kF64},
    {"float64", DType::kF64},
    {"F64", DType::kF64},
    {"double", DType::kF64},
    {"f32", DType::kF32},
    {"float32", DType::kF32},
    {"F32", DType::kF32},
    {"float", DType::kF32},
    {"f16", DType::kF16},
    {"float16", DType::kF16},
    {"F16", DType::kF16},
    {"half", DType::kF16},
    {"bf16", DType::kBF16},
    {"bfloat16", DType::kBF16},
    {"BF16", DType::kBF16},
    {"f8e4m3", DType::kF8E4M3},
    {"float8_e4m3fn", DType::kF8E4M3},
    {"F8_E4M3", DType::kF8E4M3},
    {"f8e5m2", DType::kF8E5M2},
    {"float8_e5m2", DType::kF8E5M2},
    {"F8_E5M2", DType::kF8E5M2},
    {"i8", DType::kI8},
    {"int8", DType::kI8},
    {"I8", DType::kI8},
    {"u8", DType::kU8},
    {"uint8", DType::kU8},
    {"U8", DType::kU8},
    {"i32", DType::kI32},
    {"int32", DType::kI32},
    {"I32", DType::kI32},
    {"i64", DType::kI64},
    {"int64", DType::kI64},
    {"I64", DType::kI64},
    {"bool", DType::kBool},
    {"BOOL", DType::kBool},
};

// Rounds to a float with `mantissa` bits and smallest normal exponent `min_exp`, to nearest even; exact otherwise.
// Returns the magnitude as (biased exponent << mantissa | fraction), which may overflow into the next exponent.
uint32_t round_magnitude(float x, int mantissa, int min_exp) {
  double a = std::fabs(static_cast<double>(x));
  if (a == 0) return 0;
  int exponent = std::max(std::ilogb(a), min_exp);
  double steps = std::nearbyint(std::ldexp(a, mantissa - exponent));  // exact scaling; ties to even
  auto units = static_cast<uint32_t>(steps);
  uint32_t base = static_cast<uint32_t>(exponent - min_exp) << mantissa;
  return base + units;  // a normal number's units start at 1 << mantissa, which is the biased exponent's first step
}

float magnitude_value(uint32_t magnitude, int mantissa, int min_exp) {
  uint32_t exponent = magnitude >> mantissa;
  uint32_t fraction = magnitude & ((1u << mantissa) - 1);
  if (exponent == 0) return std::ldexp(static_cast<float>(fraction), min_exp - mantissa);
  return std::ldexp(static_cast<float>(fraction | (1u << mantissa)),
                    min_exp + static_cast<int>(exponent) - 1 - mantissa);
}

}  // namespace

std::string_view dtype_name(DType t) {
  for (const Name& n : kNames)
    if (n.dtype == t) return n.name;
  return "?";
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Name& n : kNames)
    if (n.name == name) return n.dtype;
  return std::nullopt;
}

f16::f16(float x) {
  uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) {
    bits = sign | 0x7e00;
  } else if (std::fabs(x) >= 65520.0f) {  // halfway between the largest half, 65504, and the next step
    bits = sign | 0x7c00;
  } else {
    bits = static_cast<uint16_t>(sign | round_magnitude(x, 10, -14));
  }
}

f16::operator float() const {
  float sign = (bits & 0x8000) ? -1.0f : 1.0f;
  uint32_t magnitude = bits & 0x7fffu;
  if (magnitude > 0x7c00) return std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
  if (magnitude == 0x7c00) return sign * std::numeric_limits<float>::infinity();
  return sign * magnitude_value(magnitude, 10, -14);
}

f8e4m3::f8e4m3(float x) {
  uint8_t sign = std::signbit(x) ? 0x80 : 0;
  // 464 is halfway between 448 and the value 480 whose pattern is NaN; the tie goes to the even pattern, 448.
  bits = static_cast<uint8_t>(sign | (!(std::fabs(x) <= 464.0f) ? 0x7f : round_magnitude(x, 3, -6)));
}

f8e4m3::operator float() const {
  float sign = (bits & 0x80) ? -1.0f : 1.0f;
  uint32_t magnitude = bits & 0x7fu;
  if (magnitude == 0x7f) return std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
  return sign * magnitude_value(magnitude, 3, -6);
}

f8e5m2::f8e5m2(float x) {
  uint8_t sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x)) {
    bits = sign | 0x7e;
  } else if (std::fabs(x) >= 61440.0f) {  // halfway between the largest value, 57344, and the next step
    bits = sign | 0x7c;
  } else {
    bits = static_cast<uint8_t>(sign | round_magnitude(x, 2, -14));
  }
}

f8e5m2::operator float() const {
  f16 wide;
  wide.bits = static_cast<uint16_t>(bits << 8);
  return static_cast<float>(wide);
}

namespace {

template <class T>
double load_as(const void* address) {
  T x;
  std::memcpy(&x, address, sizeof x);
  if constexpr (sizeof(T) < 4 && !std::is_integral_v<T>)
    return static_cast<double>(static_cast<float>(x));
  else
    return static_cast<double>(x);
}

// Float by rounding to odd: a bit lost here stays visible to the narrower rounding that follows, which so rounds once.
float round_to_odd(double value) {
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

}  // namespace

double load_element(const void* address, DType t) {
  switch (t) {
    case DType::kF64:
      return load_as<double>(address);
    case DType::kF32:
      return load_as<float>(address);
    case DType::kF16:
      return load_as<f16>(address);
    case DType::kBF16:
      return load_as<bf16>(address);
    case DType::kF8E4M3:
      return load_as<f8e4m3>(address);
    case DType::kF8E5M2:
      return load_as<f8e5m2>(address);
    case DType::kI8:
      return load_as<int8_t>(address);
    case DType::kU8:
      return load_as<uint8_t>(address);
    case DType::kI32:
      return load_as<int32_t>(address);
    case DType::kI64:
      return load_as<int64_t>(address);
    case DType::kBool:
      return load_as<uint8_t>(address) != 0;
  }
  FK_CHECK(false, "unknown dtype");
}

void store_element(void* address, DType t, double value) {
  switch (t) {
    case DType::kF64:
      return store_as<double>(address, value);
    case DType::kF32:
      return store_as<float>(address, value);
    case DType::kF16:
      return store_as<f16>(address, value);
    case DType::kBF16:
      return store_as<bf16>(address, value);
    case DType::kF8E4M3:
      return store_as<f8e4m3>(address, value);
    case DType::kF8E5M2:
      return store_as<f8e5m2>(address, value);
    case DType::kI8:
      return store_as<int8_t>(address, value);
    case DType::kU8:
      return store_as<uint8_t>(address, value);
    case DType::kI32:
      return store_as<int32_t>(address, value);
    case DType::kI64:
      return store_as<int64_t>(address, value);
    case DType::kBool:
      return store_as<uint8_t>(address, value != 0);
  }
  FK_CHECK(false, "unknown dtype");
}

}  // namespace fk
