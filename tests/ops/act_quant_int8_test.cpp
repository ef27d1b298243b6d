// ActQuantInt8: what its own check of values allows.
#include "ops/l1/act_quant_int8.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/memory.h"

namespace fk {
namespace {

// One row: its largest is 127, so that the steps are 1.
std::string judged(const std::vector<double>& out) {
  const std::vector<double> x{127, 3.2, -3.2, 2.5, 0.0}, expected{127, 3, -3, 2, 0};
  auto row = [](const std::vector<double>& values) {
    Tensor tensor({1, static_cast<int64_t>(values.size())}, DType::kF32);
    for (size_t i = 0; i < values.size(); ++i) set(tensor, values[i], 0, static_cast<int64_t>(i));
    return tensor;
  };
  Tensor input = row(x), got = row(out), want = row(expected);
  std::vector<OptView> call{input.view(), got.view()}, reference{input.view(), want.view()};
  return ActQuantInt8::judge({}, call, reference);
}

TEST(ActQuantInt8, NumbersHalfWayMayBeRoundedToEither) {
  EXPECT_EQ(judged({127, 3, -3, 2, 0}), "");
  EXPECT_EQ(judged({127, 3, -3, 3, 0}), "");
  EXPECT_NE(judged({127, 3, -3, 4, 0}), "");
  EXPECT_NE(judged({127, 3, -3, 2.5, 0}), "");
}

TEST(ActQuantInt8, OtherNumbersMustBeRoundedToTheNearest) {
  EXPECT_NE(judged({127, 3.2, -3.2, 2.5, 0}), "");  // not rounded at all
  EXPECT_NE(judged({127, 4, -3, 2, 0}), "");
  EXPECT_NE(judged({127, 3, -4, 2, 0}), "");
  EXPECT_NE(judged({127, 3, -3, 2, 1}), "");
  EXPECT_NE(judged({127, 3, -3, 2, NAN}), "");
  EXPECT_NE(judged({126, 3, -3, 2, 0}), "");
}

}  // namespace
}  // namespace fk
