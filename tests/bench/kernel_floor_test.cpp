// The floor of whole calls: its parts, and that no baseline is below it.
#include "bench/kernels/kernel_floor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "bench/kernels/floor_verdict.h"
#include "bench/kernels/kernel_bench.h"
#include "ops/l1/embedding.h"
#include "ops/l1/linear.h"
#include "ops/l1/rms_norm.h"
#include "ops/l1/store_kvcache.h"
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
  // Written memory need not be read from main memory first.
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

// Calls of one sample read the same weights: with cold caches, only the first reads them from memory.
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
  auto read_s = [&](const SampleCost& cost) { return floors.floor(cost, DType::kBF16, true).read_s; };
  // Where another process disturbed the rates of the caches, memory seems as fast: they rise when measured again.
  for (int i = 0; i < 50 && !(read_s(sample) < read_s(sample.call)); ++i)
    floors.floor_again(sample.call, DType::kBF16, false);
  double cold = read_s(sample);
  EXPECT_LT(cold, read_s(sample.call));
  EXPECT_GE(cold, floors.floor(sample.call, DType::kBF16, false).read_s);  // every call still reads all of them
}

// The baseline against itself, with few pairs and whatever else runs on this machine: no time may be below the floor.
void expect_no_accusation(const std::string& op, const Fields& init, const Workload& workload) {
  Scenario scenario{.op = op, .name = "a case", .init = init, .workload = workload};
  ThreadPool pool(1);
  KernelBench bench(pool);
  KernelOptions options;
  options.timing.pairs = 12;
  options.timing.launches = 2;
  options.timing.warmups = 2;
  for (bool cold : {true, false, true}) {
    options.timing.cold = cold;
    KernelResult result = bench.run(scenario, "", options, [](std::string_view) {});
    EXPECT_EQ(verdict_name(result.verdict), "PASSED") << op << ": " << result.sentence;
    EXPECT_EQ(result.floor_note, "") << op << (cold ? ", cold" : ", warm");
    EXPECT_GT(result.floor.seconds, 0) << op;
    bool timed = result.timing && result.timing->paired.invalid.empty();
    EXPECT_TRUE(!timed || result.of_floor() < 1 / (1 - kFloorError)) << op << (cold ? ", cold" : ", warm");
  }
}

TEST(KernelFloor, SlowNeverAccusesTheBaselineOfAnEmbedding) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  Fields init = to_fields(Embedding::Init{.num_embeddings = 4096, .embedding_dim = 1024});
  expect_no_accusation("embedding", init, Workload::tokens(1));
  expect_no_accusation("embedding", init, Workload::tokens(256));
}

TEST(KernelFloor, SlowNeverAccusesTheBaselineOfACopyOrANorm) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  expect_no_accusation("store_kvcache", to_fields(StoreKVCache::Init{.num_kv_heads = 8, .head_size = 64}),
                       Workload::tokens(64));
  expect_no_accusation("rms_norm", to_fields(RMSNorm::Init{.hidden_size = 1024}), Workload::tokens(32, true));
}

}  // namespace
}  // namespace fk
