// The check of logits for NaN and infinity: what it finds, and that it costs a request nothing but a look.
#include "engine/finite_logits.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "core/error.h"
#include "tests/engine/allocation_count.h"

namespace fk {
namespace {

TEST(FiniteLogits, AreCheckedInPlace) {
  const Model model;
  std::vector<float> logits(128256, 1.5f);
  const View view(logits.data(), {1, static_cast<int64_t>(logits.size())}, DType::kF32);
  const int64_t before = allocation_count();
  require_finite_logits(model, view);
  EXPECT_EQ(allocation_count(), before) << "buffers of half a megabyte doubled the time of short requests";
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    logits.back() = bad;
    EXPECT_THROW(require_finite_logits(model, view), Error);
  }
}

}  // namespace
}  // namespace fk
