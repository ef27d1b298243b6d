// What all sides of a timing must have alike, and what a candidate's process must have done.
#include <gtest/gtest.h>

#include <cstring>

#include "bench/kernels/cold.h"
#include "bench/kernels/dispatch_sum.h"
#include "bench/kernels/side_weights.h"
#include "candidate/empty_kernel.h"
#include "core/thread_pool.h"
#include "ops/materialize.h"

namespace fk {
namespace {

SideWeights weights_of_linear(int64_t features) {
  const OperatorInfo& op = Registry::instance().at("linear");
  Fields init = op.default_init();
  for (Field& f : init)
    if (f.name == "input_size" || f.name == "output_size") f.value = features;
  std::unique_ptr<Node> root = op.build(init, {});
  SharedParams params = contract_inputs().params(*root, 3);
  return SideWeights(*root, *params, kCpu);
}

TEST(SideWeights, EverySideReadsACopyOfItsOwn) {
  const SideWeights weights = weights_of_linear(64);
  const SharedTensors &first = weights.of(0), &second = weights.of(1), &third = weights.of(2);
  EXPECT_NE(&first, &second);
  EXPECT_NE(&second, &third);
  EXPECT_NE(&first, &third);
  for (size_t i = 0; i < first.size(); ++i)
    for (const SharedTensors* other : {&second, &third})
      EXPECT_EQ(std::memcmp(first.view(i).data(), other->view(i).data(), first.view(i).size_bytes()), 0);
}

TEST(OrderedCalls, MustBeTheCountedOnes) {
  OrderedCalls calls;
  calls.begin({{"linear", "candidate", 8, 100}, {"linear", "cpu.amx", 8, 3}});
  calls.add(5), calls.add(2);
  auto verdict = [&](int64_t candidate, int64_t other) {
    return calls.compare(calls.since({{"linear", "candidate", 8, candidate},
                                      {"linear", "cpu.amx", 8, other},
                                      {"silu_and_mul", "cpu.avx512", 8, 70}}),
                         "linear");
  };
  EXPECT_FALSE(verdict(107, 3));
  EXPECT_FALSE(verdict(103, 7)) << "two implementations shared them";
  for (int64_t counted : {100, 106, 108, 400}) {
    std::optional<Failure> other = verdict(counted, 3);
    ASSERT_TRUE(other) << counted;
    EXPECT_EQ(other->verdict, Verdict::kTampered);
  }
}

TEST(EmptyKernel, TakesEveryCallAndWritesNothing) {
  const OperatorInfo& op = Registry::instance().at("softmax");
  std::shared_ptr<const ForeignKernel> kernel = empty_kernel(op);
  std::unique_ptr<ForeignOperator> object = kernel->create(op.default_init());
  object->bind({}, {});
  Tensor x({4, 8}, DType::kF32), out({4, 8}, DType::kF32);
  std::memset(out.view().data(), 0x5A, out.view().size_bytes());
  const Tensor before = copy_of(out);
  ThreadPool pool(1);
  Arena arena;
  Context ctx{.pool = pool, .arena = arena};
  std::vector<OptView> args = {OptView(x.view()), OptView(out.view())};
  EXPECT_TRUE(object->refuse(args).empty());
  object->forward(ctx, args);
  EXPECT_EQ(std::memcmp(before.view().data(), out.view().data(), out.view().size_bytes()), 0);
}

TEST(Cold, MemoryOfItsOwnIsNotRankedFaster) {
  TimingResult result;
  result.paired.verdict = SpeedVerdict::kFaster;
  result.baseline_own_kib = 4'000;
  result.candidate_own_kib = 4'900;
  refuse_private_memory(result);
  EXPECT_EQ(result.paired.verdict, SpeedVerdict::kFaster) << "its code";
  result.candidate_own_kib = 12'000;
  refuse_private_memory(result);
  EXPECT_EQ(result.paired.verdict, SpeedVerdict::kUnresolved);
  EXPECT_NE(result.paired.invalid.find("7.8 MiB"), std::string::npos) << result.paired.invalid;
  result.paired.verdict = SpeedVerdict::kSlower;
  result.paired.invalid.clear();
  refuse_private_memory(result);
  EXPECT_EQ(result.paired.verdict, SpeedVerdict::kSlower);
}

}  // namespace
}  // namespace fk
