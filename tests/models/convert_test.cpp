// Conversions between weight types: every half there is, and core's bit-exact scalar conversions as the reference.
#include "models/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/rng.h"

namespace fk {
namespace {

template <class From, class To>
std::vector<To> converted(const std::vector<From>& from) {
  std::vector<To> to(from.size());
  convert_elements(from.data(), dtype_of<From>, to.data(), dtype_of<To>, static_cast<int64_t>(from.size()));
  return to;
}

template <class T>
std::vector<T> every_pattern() {
  std::vector<T> values(65536);
  for (uint32_t i = 0; i < 65536; ++i) values[i].bits = static_cast<uint16_t>(i);
  return values;
}

void expect_same(float found, float expected, uint32_t source) {
  if (std::isnan(expected)) {
    ASSERT_TRUE(std::isnan(found)) << std::hex << source;
    ASSERT_EQ(std::signbit(found), std::signbit(expected)) << std::hex << source;
  } else {
    ASSERT_EQ(std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(expected)) << std::hex << source;
  }
}

TEST(Convert, WidensEveryHalf) {
  auto f16s = every_pattern<f16>();
  auto from_f16 = converted<f16, float>(f16s);
  auto bf16s = every_pattern<bf16>();
  auto from_bf16 = converted<bf16, float>(bf16s);
  for (size_t i = 0; i < 65536; ++i) {
    expect_same(from_f16[i], static_cast<float>(f16s[i]), static_cast<uint32_t>(i));
    expect_same(from_bf16[i], static_cast<float>(bf16s[i]), static_cast<uint32_t>(i));
  }
}

// Around every half and exactly between neighbours, where rounding decides; and floats of all exponents.
TEST(Convert, NarrowsToNearestEven) {
  std::vector<float> values;
  for (const auto& halves :
       {converted<f16, float>(every_pattern<f16>()), converted<bf16, float>(every_pattern<bf16>())}) {
    for (float half : halves) {
      auto bits = std::bit_cast<uint32_t>(half);
      for (uint32_t step : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffffffu})
        values.push_back(std::bit_cast<float>(bits + step));
      values.push_back(half * 1.00048828125f);
    }
  }
  Stream stream(1, "floats");
  for (uint64_t i = 0; i < 200000; ++i) values.push_back(std::bit_cast<float>(stream.u32(i)));
  auto to_f16 = converted<float, f16>(values);
  auto to_bf16 = converted<float, bf16>(values);
  for (size_t i = 0; i < values.size(); ++i) {
    auto source = std::bit_cast<uint32_t>(values[i]);
    ASSERT_EQ(to_f16[i].bits, f16(values[i]).bits) << std::hex << source;
    ASSERT_EQ(to_bf16[i].bits, bf16(values[i]).bits) << std::hex << source;
  }
}

TEST(Convert, GoesBetweenTheTwoHalves) {
  auto f16s = every_pattern<f16>();
  auto to_bf16 = converted<f16, bf16>(f16s);
  auto bf16s = every_pattern<bf16>();
  auto to_f16 = converted<bf16, f16>(bf16s);
  for (size_t i = 0; i < 65536; ++i) {
    expect_same(static_cast<float>(to_bf16[i]), static_cast<float>(bf16(static_cast<float>(f16s[i]))),
                static_cast<uint32_t>(i));
    ASSERT_EQ(to_f16[i].bits, f16(static_cast<float>(bf16s[i])).bits) << i;
  }
}

TEST(Convert, TakesAnyLengthAndAnyAlignment) {
  for (int64_t n : {0, 1, 3, 15, 17, 1023, 1024, 1025, 5000}) {
    for (size_t shift : {0u, 1u, 3u}) {
      std::vector<std::byte> bytes(shift + 4 * static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) {
        auto value = static_cast<float>(i);
        std::memcpy(bytes.data() + shift + 4 * i, &value, 4);
      }
      std::vector<bf16> out(static_cast<size_t>(n) + 1, bf16(-1.0f));
      convert_elements(bytes.data() + shift, DType::kF32, out.data(), DType::kBF16, n);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out[i].bits, bf16(static_cast<float>(i)).bits);
      ASSERT_EQ(out[n].bits, bf16(-1.0f).bits) << "written past the end";
      std::vector<float> same(static_cast<size_t>(n));
      convert_elements(bytes.data() + shift, DType::kF32, same.data(), DType::kF32, n);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(same[i], static_cast<float>(i));
    }
  }
}

}  // namespace
}  // namespace fk
