#include "measure/roofline.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"

namespace fk {
namespace {

TEST(Roofline, SpeedsAreThoseOfTheDtype) {
  MachineProbe probe;
  probe.read_gbps = {40, 30, ""};
  probe.bf16_tflops = {4, 3, ""};
  probe.f32_tflops = {0.5, 0.25, ""};
  EXPECT_DOUBLE_EQ(best_speeds(probe, DType::kBF16).read, 40e9);
  EXPECT_DOUBLE_EQ(best_speeds(probe, DType::kBF16).compute, 4e12);
  EXPECT_DOUBLE_EQ(best_speeds(probe, DType::kF32).compute, 4e12 / 6) << "by products of bf16 parts";
  EXPECT_DOUBLE_EQ(median_speeds(probe, DType::kBF16).read, 30e9);
  EXPECT_DOUBLE_EQ(median_speeds(probe, DType::kF32).compute, 3e12 / 6);
  probe.f32_tflops = {0.9, 0.8, ""};
  EXPECT_DOUBLE_EQ(best_speeds(probe, DType::kF32).compute, 0.9e12);
}

TEST(Roofline, FloorIsTheSlowerOfReadingAndComputing) {
  // A 2.5 GB model read once at 40 GB/s: 62.5 ms. 2.5e9 operations at 4 TFLOP/s: 0.625 ms; 512 tokens: 320 ms.
  const Speeds speeds{.read = 40e9, .compute = 4e12};
  EXPECT_DOUBLE_EQ(floor_s(2.5e9, 2.5e9, speeds), 62.5e-3);
  EXPECT_DOUBLE_EQ(floor_s(2.5e9, 2.5e9 * 512, speeds), 320e-3);
}

TEST(Roofline, ShareNeedsATime) {
  EXPECT_DOUBLE_EQ(floor_share(62.5, 125), 0.5);
  EXPECT_THROW(floor_share(1, 0), Error);
  EXPECT_THROW(floor_share(1, std::nan("")), Error);
}

}  // namespace
}  // namespace fk
