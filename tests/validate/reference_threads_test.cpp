// An oracle of a few milliseconds starts no threads: waiting for them would take longer than the call.
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>

#include "core/thread_pool.h"
#include "validate/reference.h"

namespace fk::validate {
namespace {

auto threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

TEST(ReferenceThreads, OnlyLongCallsHaveThem) {
  const OperatorInfo& softmax = Registry::instance().at("softmax");
  const OperatorInfo::ErasedCase small = softmax.cases().front();
  const auto before = threads_of_this_process();
  ASSERT_LT(reference_seconds(softmax, small.init, small.workload), 0.001);
  Reference of_small(softmax, small.init, small.workload);
  EXPECT_EQ(threads_of_this_process(), before);

  Workload large = small.workload;
  large.sequences.assign(1000, {.query_len = 1000, .context_len = 1000});
  ASSERT_GT(reference_seconds(softmax, small.init, large), 0.02);
  Reference of_large(softmax, small.init, large);
  EXPECT_EQ(threads_of_this_process() > before, usable_cores() > 1);
}

}  // namespace
}  // namespace fk::validate
