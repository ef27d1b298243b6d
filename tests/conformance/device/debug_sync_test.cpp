// FASTKERNELS_DEBUG_SYNC=1: a failing kernel is named, with its place in the model and its arguments.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/error.h"
#include "core/memory.h"
#include "ops/l1/allreduce.h"
#include "ops/register.h"
#include "tests/conformance/device/aliased_device.h"

namespace fk::conformance {
namespace {

// Before the variable is first read.
[[maybe_unused]] const bool asked_for = setenv("FASTKERNELS_DEBUG_SYNC", "1", 1) == 0;

class AllReduceFailing final : public AllReduce {
 public:
  using AllReduce::AllReduce;
  void forward(Context&, View x, View) override {
    if (x.size(0) > 1) fail_next_wait();
  }
};
FK_IMPLEMENTATION(AllReduce, AllReduceFailing, "cuda.failing", DeviceKind::kCuda, 0, nullptr);

TEST(DebugSync, NamesTheOperatorThatFailed) {
  BuildOptions options;
  options.device = kAliased;
  Builder builder(options);
  Op<AllReduce> op = builder.child<AllReduce>("layers.3.reduce", {});
  ThreadPool pool(1);
  Arena arena(kAliased);
  Context ctx{.pool = pool, .arena = arena};
  Tensor row({1, 3}, DType::kBF16, kAliased), rows({2, 3}, DType::kBF16, kAliased);
  EXPECT_NO_THROW(op(ctx, row.view()));
  try {
    op(ctx, rows.view());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "allreduce by cuda.failing at layers.3.reduce failed on (x: bf16[2, 3], out: bf16[2, 3]): Work before "
                 "this point failed.");
  }
}

}  // namespace
}  // namespace fk::conformance
