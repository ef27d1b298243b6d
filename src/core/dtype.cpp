#include "core/dtype.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "core/element_access.h"

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

// A float with this exponent and no fraction.
constexpr float power_of_two(int exponent) { return std::bit_cast<float>(static_cast<uint32_t>(127 + exponent) << 23); }

// Added to the exponent of a narrow float whose smallest normal exponent is `min_exp`, gives that of a float.
constexpr uint32_t bias_to_float(int min_exp) { return static_cast<uint32_t>(126 + min_exp); }

// Rounds to a float with `mantissa` bits and smallest normal exponent `min_exp`, to nearest even; exact otherwise.
// Returns the magnitude as (biased exponent << mantissa | fraction), which may overflow into the next exponent.
uint32_t round_magnitude(float x, int mantissa, int min_exp) {
  float a = std::fabs(x);
  if (a < power_of_two(min_exp))  // no exponent: counted in the smallest steps
    return static_cast<uint32_t>(std::nearbyint(static_cast<double>(a) * power_of_two(mantissa - min_exp)));
  int dropped = 23 - mantissa;
  auto bits = std::bit_cast<uint32_t>(a);
  uint32_t to_even = (bits >> dropped) & 1u;
  return ((bits + (1u << (dropped - 1)) - 1 + to_even) >> dropped) - (bias_to_float(min_exp) << mantissa);
}

float magnitude_value(uint32_t magnitude, int mantissa, int min_exp) {
  if (magnitude >> mantissa == 0) return static_cast<float>(magnitude) * power_of_two(min_exp - mantissa);
  return std::bit_cast<float>((magnitude << (23 - mantissa)) + (bias_to_float(min_exp) << 23));
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

double load_element(const void* address, DType t) {
  return with_element_type(t, [&]<class T>(std::type_identity<T>) { return load_as<T>(address); });
}

void store_element(void* address, DType t, double value) {
  with_element_type(t, [&]<class T>(std::type_identity<T>) { store_as<T>(address, value); });
}

}  // namespace fk
