// The floor of whole calls: what it is made of, and that no baseline is ever accused by it.
#include "bench/kernels/kernel_floor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "bench/kernels/kernel_bench.h"
#include "bench/scenarios/generate.h"
#include "ops/l1/linear.h"
#include "tests/sanitizer.h"

namespace fk {
namespace {

TEST(KernelFloor, PricesReadingWritingAndArithmeticApart) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsFullSpeed);
  ThreadPool pool(1);
  KernelFloor floors(pool);
  Floor reads = floors.floor(Cost{.read_bytes = 1e6}, DType::kF32, false);
  EXPECT_GT(reads.read_s, 0);
  EXPECT_EQ(reads.written_s, 0);
  EXPECT_EQ(reads.seconds, reads.read_s);
  Floor both = floors.floor(Cost{.read_bytes = 1e6, .written_bytes = 1e6}, DType::kF32, false);
  EXPECT_EQ(both.seconds, std::max(both.read_s, both.written_s));
  Floor flops = floors.floor(Cost{.read_bytes = 64, .matrix_flops = 1e9}, DType::kF32, false);
  EXPECT_EQ(flops.seconds, flops.flops_s);
  // Small calls have a floor too.
  EXPECT_GT(floors.floor(Cost{.read_bytes = 100}, DType::kF32, false).seconds, 0);
  // What is written need not come from main memory first.
  Floor cold = floors.floor(Cost{.read_bytes = 1e6, .written_bytes = 1e6}, DType::kF32, true);
  EXPECT_GE(cold.read_s, both.read_s * 0.9);
  EXPECT_EQ(cold.written_s, floors.floor(Cost{.written_bytes = 1e6}, DType::kF32, false).written_s);
}

TEST(KernelFloor, ObservingOnlyLowersAFloor) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsFullSpeed);
  ThreadPool pool(1);
  KernelFloor floors(pool);
  Cost cost{.read_bytes = 3e6, .written_bytes = 1e5};
  double before = floors.floor(cost, DType::kF32, false).seconds;
  for (int i = 0; i < 5; ++i) {
    floors.observe(cost, DType::kF32, false);
    double now = floors.floor(cost, DType::kF32, false).seconds;
    EXPECT_LE(now, before);
    before = now;
  }
  EXPECT_LE(floors.floor_again(cost, DType::kF32, false).seconds, before);
}

// Calls of one sample read the same weights: cold, only the first of them does so from memory.
TEST(KernelFloor, WeightsAreReadOnceForAllCallsOfASample) {
  Linear::Init init{.in_features = 256, .out_features = 256};
  Workload one = Workload::tokens(4);
  SampleCost sample(Linear::cost(init, one));
  sample.together = Linear::cost(init, one.repeated(8));
  sample.calls = 8;
  EXPECT_LT(sample.together.read_bytes, 2 * sample.call.read_bytes);
  EXPECT_EQ(sample.together.written_bytes, 8 * sample.call.written_bytes);
  EXPECT_EQ(sample.together.matrix_flops, 8 * sample.call.matrix_flops);
  FK_NOT_UNDER_A_SANITIZER(kNeedsFullSpeed);
  ThreadPool pool(1);
  KernelFloor floors(pool);
  double cold = floors.floor(sample, DType::kBF16, true).read_s;
  EXPECT_LT(cold, floors.floor(sample.call, DType::kBF16, true).read_s);
  EXPECT_GE(cold, floors.floor(sample.call, DType::kBF16, false).read_s);  // every call still reads all of them
}

class NoBaselineIsAccused : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(NoBaselineIsAccused, ColdAndWarm) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  auto [op, step] = GetParam();
  ScenarioSelection select{.models = {"llama-3.2-1b"}, .tp = {1}, .target = op, .filter = step};
  std::vector<Scenario> scenarios = generate_scenarios(select).scenarios;
  ASSERT_FALSE(scenarios.empty());
  ThreadPool pool(1);
  KernelBench bench(pool);
  KernelOptions options;
  options.timing.pairs = 16;
  options.timing.launches = 2;
  options.timing.warmups = 2;
  for (int run = 0; run < 4; ++run) {
    options.timing.cold = run % 2 == 0;
    KernelResult result = bench.run(scenarios.front(), "", options, [](std::string_view) {});
    EXPECT_EQ(verdict_name(result.verdict), "PASSED") << result.sentence;
    EXPECT_EQ(result.floor_note, "") << (options.timing.cold ? "cold" : "warm");
    EXPECT_GT(result.floor.seconds, 0);
    EXPECT_LT(result.of_floor(), 1.05) << (options.timing.cold ? "cold" : "warm");
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, NoBaselineIsAccused,
                         testing::Values(std::tuple("embedding", "decode-1"), std::tuple("embedding", "prefill-512"),
                                         std::tuple("rms_norm", "decode-32"),
                                         std::tuple("store_kvcache", "prefill-512"),
                                         std::tuple("silu_and_mul", "decode-32")),
                         [](const auto& given) {
                           std::string name = std::string(std::get<0>(given.param)) + "_" + std::get<1>(given.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace fk
