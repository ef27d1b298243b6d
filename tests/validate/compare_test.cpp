// Tests of the comparator against a second, plain implementation of the same rule, and with inserted errors.
#include "validate/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/memory.h"
#include "core/rng.h"
#include "ops/contract.h"
#include "measure/cpu_time.h"
#include "tests/sanitizer.h"

namespace fk::validate {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
using Fault = Comparison::Fault;

Tensor tensor(const Shape& shape, DType dtype, const std::vector<double>& values) {
  Tensor t(shape, dtype);
  for (size_t i = 0; i < values.size(); ++i)
    store_element(static_cast<std::byte*>(t.view().data()) + i * dtype_size(dtype), dtype, values[i]);
  return t;
}
Bounds wide(double relative, double absolute) { return {relative, absolute, kInf, kInf}; }

Fault fault_of(DType dtype, double got, double want, const Bounds& bounds) {
  return compare(tensor({1}, dtype, {got}), tensor({1}, DType::kF64, {want}), bounds).fault;
}

// The rule implemented again, element by element, without regard to speed.
int64_t wrong_by_hand(const std::vector<double>& got, const std::vector<double>& want, double relative,
                      double absolute) {
  int64_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    bool right = false;
    if (std::isinf(want[i]))
      right = got[i] == want[i];
    else if (std::isfinite(got[i]))
      right = std::fabs(got[i] - want[i]) <= absolute + relative * std::fabs(want[i]);
    if (!right) ++wrong;
  }
  return wrong;
}

TEST(Compare, AgreesWithTheRuleByHand) {
  Stream stream(7, "compare");
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    for (uint64_t round = 0; round < 50; ++round) {
      std::vector<double> want, got;
      for (uint64_t i = 0; i < 24; ++i) {
        uint64_t at = round * 1000 + i * 3;
        want.push_back(stream.normal(at));
        double x = want.back() * (1 + 0.02 * stream.normal(at + 1)) + 0.01 * stream.normal(at + 2);
        if (stream.u32(at) % 40 == 0) x = stream.u32(at + 1) % 2 == 0 ? kNan : -kInf;
        if (stream.u32(at) % 41 == 0) want.back() = kInf;
        if (stream.u32(at) % 82 == 0) x = kInf;
        got.push_back(x);
      }
      Tensor result = tensor({4, 6}, dtype, got);
      std::vector<double> stored;
      for (int64_t i = 0; i < 24; ++i) stored.push_back(get(result.view().reshape({24}), i));
      Comparison c = compare(result, tensor({4, 6}, DType::kF64, want), wide(0.02, 0.01));
      EXPECT_EQ(c.wrong, wrong_by_hand(stored, want, 0.02, 0.01));
      EXPECT_EQ(c.ok(), c.wrong == 0);
    }
  }
}

// Long tensors are compared in blocks: what is rare may be in any of them, and the worst element too.
TEST(Compare, LongTensorsToo) {
  Stream stream(11, "long");
  constexpr uint64_t kElements = 5000;
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    for (uint64_t round = 0; round < 12; ++round) {
      std::vector<double> want, got;
      for (uint64_t i = 0; i < kElements; ++i) {
        uint64_t at = (round * kElements + i) * 2;
        want.push_back(stream.normal(at));
        got.push_back(want.back() * (1 + 0.008 * stream.normal(at + 1)));
      }
      const uint64_t worst = stream.below(round, kElements);
      want[worst] = 1, got[worst] = 1.5;
      if (round % 3 == 1) got[stream.below(100 + round, kElements)] = kNan;
      if (round % 3 == 2) {
        const uint64_t same = stream.below(200 + round, kElements);
        want[same] = got[same] = kInf;
      }
      Tensor result = tensor({50, 100}, dtype, got);
      std::vector<double> stored;
      double squares = 0, largest = 0, ratio = 0;
      for (uint64_t i = 0; i < kElements; ++i) {
        stored.push_back(get(result.view().reshape({kElements}), static_cast<int64_t>(i)));
        if (std::isinf(want[i])) continue;
        double error = std::fabs(stored[i] - want[i]);
        squares += error * error, largest = std::max(largest, error);
        ratio = std::max(ratio, error / (0.02 * std::fabs(want[i]) + 0.001));
      }
      Comparison c = compare(result, tensor({50, 100}, DType::kF64, want), wide(0.02, 0.001));
      EXPECT_EQ(c.wrong, wrong_by_hand(stored, want, 0.02, 0.001));
      if (round % 3 == 1) {
        EXPECT_EQ(c.ratio, kInf);
        EXPECT_TRUE(std::isnan(c.got));
        continue;
      }
      EXPECT_EQ(c.worst, (Shape{static_cast<int64_t>(worst / 100), static_cast<int64_t>(worst % 100)}));
      EXPECT_NEAR(c.ratio, ratio, 1e-12 * ratio);
      EXPECT_EQ(c.largest_error, largest);
      EXPECT_NEAR(c.rms_error, std::sqrt(squares / kElements), 1e-12);
    }
  }
}

TEST(Compare, OneUlpBeyondIsRefusedAndTheBoundItselfPasses) {
  Bounds bounds = wide(0, 0x1p-10);
  EXPECT_EQ(fault_of(DType::kF32, 1 + 0x1p-10, 1, bounds), Fault::kNone);
  EXPECT_EQ(fault_of(DType::kF32, 1 - 0x1p-10, 1, bounds), Fault::kNone);
  EXPECT_EQ(fault_of(DType::kF32, 1 + 0x1p-10 + 0x1p-23, 1, bounds), Fault::kElement);
  EXPECT_EQ(fault_of(DType::kF32, 1 - 0x1p-10 - 0x1p-24, 1, bounds), Fault::kElement);
}

TEST(Compare, NanEqualsNothing) {
  EXPECT_EQ(fault_of(DType::kF32, kNan, 1, wide(1e9, 1e9)), Fault::kElement);
  EXPECT_EQ(fault_of(DType::kF32, kNan, kNan, wide(1e9, 1e9)), Fault::kReference);
  EXPECT_EQ(fault_of(DType::kF32, 1, kNan, wide(1e9, 1e9)), Fault::kReference);
}

TEST(Compare, InfinitiesMatchInSign) {
  EXPECT_EQ(fault_of(DType::kF32, kInf, kInf, {}), Fault::kNone);
  EXPECT_EQ(fault_of(DType::kF32, -kInf, kInf, wide(1, 1)), Fault::kElement);
  EXPECT_EQ(fault_of(DType::kF32, kInf, 1, wide(1, 1)), Fault::kElement);
  EXPECT_EQ(fault_of(DType::kF32, 1, kInf, wide(1, 1)), Fault::kElement);
  EXPECT_EQ(fault_of(DType::kF16, kInf, 1e6, {}), Fault::kNone) << "1e6 is an infinity in f16";
  EXPECT_EQ(fault_of(DType::kF32, kInf, 1e6, wide(1, 1)), Fault::kElement);
}

TEST(Compare, IntegersAreExactInAllTheirBits) {
  auto one = [](int64_t x) {
    Tensor t({1}, DType::kI64);
    t.ptr<int64_t>()[0] = x;
    return t;
  };
  int64_t big = (int64_t{1} << 60) + 1;
  EXPECT_TRUE(compare(one(big), one(big), {}).ok());
  EXPECT_FALSE(compare(one(big), one(big - 1), wide(1, 1)).ok()) << "equal as doubles";
}

TEST(Compare, ShapeAndDtypeComeFirst) {
  Tensor want = tensor({2, 3}, DType::kF64, std::vector<double>(6, 1));
  Tensor turned = tensor({3, 2}, DType::kF32, std::vector<double>(6, 1));
  EXPECT_EQ(compare(turned, want, wide(1, 1)).fault, Fault::kShape);
  EXPECT_EQ(compare(turned, DType::kBF16, want, wide(1, 1)).fault, Fault::kDtype);
}

TEST(Compare, NamesTheWorstElement) {
  std::vector<double> want(24, 1), got = want;
  got[7] = 1.1;
  got[17] = 3;
  Comparison c = compare(tensor({2, 3, 4}, DType::kF32, got), tensor({2, 3, 4}, DType::kF64, want), wide(0.01, 0));
  EXPECT_EQ(c.wrong, 2);
  EXPECT_EQ(c.worst, (Shape{1, 1, 1}));
  EXPECT_EQ(c.got, 3);
  EXPECT_EQ(c.want, 1);
  EXPECT_NEAR(c.ratio, 200, 1e-9);
}

TEST(Compare, SmallErrorsEverywhereBreakTheMeanSquare) {
  std::vector<double> want(100, 1), got(100, 1 + 0x1p-8);
  Bounds bounds{0, 0x1p-7, 0x1p-7, 0x1p-9};
  EXPECT_EQ(compare(tensor({100}, DType::kF32, got), tensor({100}, DType::kF64, want), bounds).fault,
            Fault::kMeanSquare);
  bounds = {0, 0x1p-7, 0x1p-9, 1};
  EXPECT_EQ(compare(tensor({100}, DType::kF32, got), tensor({100}, DType::kF64, want), bounds).fault, Fault::kLargest);
}

TEST(Compare, RowsThatMustStayAreExact) {
  std::vector<double> before = {1, 2, 3, 4}, want = {1, 2, 5, 6}, got = {1, 2 + 0x1p-20, 5, 6 + 0x1p-20};
  Tensor old = tensor({2, 2}, DType::kF32, before), reference = tensor({2, 2}, DType::kF64, want);
  Comparison c = compare(tensor({2, 2}, DType::kF32, got), reference, wide(0.1, 0.1), &old.view());
  EXPECT_EQ(c.wrong, 1);
  EXPECT_EQ(c.worst, (Shape{0, 1}));
}

TEST(Calibrate, AllowsThreeTimesTheBaselineAndNoMoreThanThreeContracts) {
  int64_t n = 4096;
  std::vector<double> want(static_cast<size_t>(n), 1), got = want;
  got[5] = 1 + 0.5e-3;
  Tensor reference = tensor({n}, DType::kF64, want), baseline = tensor({n}, DType::kF32, got);
  Calibration half = calibrate(baseline, reference, {1e-3, 0}, {1e-3, 0});
  EXPECT_TRUE(half.usable);
  EXPECT_NEAR(half.baseline_ratio, 0.5, 1e-3);
  EXPECT_NEAR(half.bounds.relative, 1.5e-3, 1e-5);
  got[5] = 1 + 2e-3;
  Calibration broken = calibrate(tensor({n}, DType::kF32, got), reference, {1e-3, 0}, {1e-3, 0});
  EXPECT_FALSE(broken.usable);
  EXPECT_LE(broken.bounds.relative, 3.001e-3);
  EXPECT_LE(broken.bounds.largest_error, 3.001e-3);
  // For an exact baseline on many elements only the least share is allowed, but never less than the output's rounding.
  Calibration exact = calibrate(tensor({n}, DType::kBF16, want), reference, {0, 0x1p-20}, {0, 0x1p-20});
  EXPECT_GE(exact.bounds.relative, 0x1p-8);
  EXPECT_LT(exact.bounds.relative, 0x1p-7);
  EXPECT_EQ(calibrate(tensor({n}, DType::kF32, want), reference, {}, {}).bounds.relative, 0) << "copies are exact";
}

TEST(Compare, TakesTenMillionElementsInASecond) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsFullSpeed);
  int64_t n = 1'000'000;
  Tensor result({n}, DType::kBF16), reference({n}, DType::kF64);
  double best = kInf;
  for (int i = 0; i < 5; ++i) {
    CpuStopwatch watch;
    EXPECT_TRUE(compare(result, reference, wide(0.1, 0.1)).ok());
    best = std::min(best, watch.elapsed_s());
  }
  EXPECT_LT(best, 0.1);
}

// Hardware or fast-math code that flushes subnormal numbers is as correct as code that keeps them.
TEST(Calibrate, ACandidateMayFlushWhatTheContractLetsGo) {
  Tolerance tolerance = rounding_tolerance(DType::kF32, 8);
  std::vector<double> tiny = {0x1p-127, -0x1p-130, 0x1.8p-128, 0x1p-149};
  Tensor reference = tensor({4}, DType::kF64, tiny), kept = tensor({4}, DType::kF32, tiny);
  Tensor flushed = tensor({4}, DType::kF32, {0, 0, 0, 0});
  for (const Tensor* baseline : {&kept, &flushed}) {
    Calibration c = calibrate(*baseline, reference, tolerance, tolerance);
    EXPECT_TRUE(c.usable);
    EXPECT_TRUE(compare(kept, reference, c.bounds).ok());
    EXPECT_TRUE(compare(flushed, reference, c.bounds).ok()) << compare(flushed, reference, c.bounds).sentence;
  }
  // Normal numbers may not be flushed, nor subnormal numbers of f16, nor anything in a copy.
  Tensor normal = tensor({2}, DType::kF64, {0x1p-124, -0x1p-124});
  Calibration c = calibrate(tensor({2}, DType::kF32, {0x1p-124, -0x1p-124}), normal, tolerance, tolerance);
  EXPECT_FALSE(compare(tensor({2}, DType::kF32, {0, 0}), normal, c.bounds).ok());
  Tolerance half = rounding_tolerance(DType::kF16, 8);
  Tensor in_half = tensor({2}, DType::kF64, {0x1p-18, 0x1p-20});
  c = calibrate(tensor({2}, DType::kF16, {0x1p-18, 0x1p-20}), in_half, half, half);
  EXPECT_FALSE(compare(tensor({2}, DType::kF16, {0, 0}), in_half, c.bounds).ok());
  EXPECT_FALSE(calibrate(flushed, reference, {}, {}).usable);
}

}  // namespace
}  // namespace fk::validate
