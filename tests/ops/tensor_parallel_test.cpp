// One rank's share of a layer: sizes as vLLM divides them, and parts that add up to the whole.
#include "ops/l2/tensor_parallel.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/memory.h"
#include "core/rng.h"
#include "ops/materialize.h"
#include "ops/registry.h"
#include "tests/models/error_text.h"

namespace fk {
namespace {

TEST(TensorParallel, SharesOfARank) {
  EXPECT_EQ(rank_share(64, 8, "attention heads"), 8);
  EXPECT_EQ(rank_kv_heads(8, 4), 2);
  EXPECT_EQ(rank_kv_heads(8, 8), 1);
  EXPECT_EQ(rank_kv_heads(2, 8), 1) << "ranks share a head";
  EXPECT_EQ(rank_vocab(128256, 1), 128256);
  EXPECT_EQ(rank_vocab(257, 1), 257) << "alone nothing is padded";
  EXPECT_EQ(rank_vocab(257, 2), 160) << "padded to 320";
  EXPECT_EQ(rank_vocab(262208, 8), 32776);
}

TEST(TensorParallel, ImpossibleDivisionsAreRefused) {
  expect_sentence(error_of([] { rank_share(25, 2, "attention heads"); }), {"25 attention heads", "2 ranks"});
  expect_sentence(error_of([] { rank_kv_heads(3, 8); }), {"3 key and value heads", "8 ranks"});
  expect_sentence(error_of([] { rank_kv_heads(6, 4); }), {"6 key and value heads"});
  expect_sentence(error_of([] { rank_share(4, 0, "heads"); }), {"0 ranks"});
}

// The call of a tree with weights given by name, in f32 on one thread.
std::vector<double> run(const Fields& init, const Tensor& x, const std::function<View(const std::string&)>& weight) {
  std::unique_ptr<Node> root = Registry::instance().at("llama_mlp").build(init, {});
  root->bind(weight);
  ThreadPool pool(1);
  Arena arena;
  Context ctx{pool, arena};
  Tensor out(x.view().spec());
  const OptView args[] = {x.view(), out.view()};
  root->call(ctx, args);
  return {out.ptr<float>(), out.ptr<float>() + out.view().numel()};
}

TEST(TensorParallel, PartsOfAnMlpAddUpToTheWhole) {
  constexpr int64_t kTokens = 3, kHidden = 24, kWide = 40, kRanks = 2, kShare = kWide / kRanks;
  auto random = [](const Shape& shape, const char* name) {
    Tensor t(shape, DType::kF32);
    Stream stream(1, name);
    for (int64_t i = 0; i < shape.numel(); ++i)
      t.ptr<float>()[i] = static_cast<float>(stream.normal(static_cast<uint64_t>(i)));
    return t;
  };
  Tensor x = random({kTokens, kHidden}, "x"), gate_up = random({2 * kWide, kHidden}, "gate up"),
         down = random({kHidden, kWide}, "down");
  auto init = [](int64_t tp) {
    Fields f = {{"hidden_size", kHidden}, {"intermediate_size", kWide}, {"dtype", std::string("f32")}};
    f.push_back({"tp_size", tp});
    f.push_back({"reduce_results", tp == 1});
    return f;
  };
  auto is_down = [](const std::string& name) { return name.find("down") != std::string::npos; };
  std::vector<double> whole =
      run(init(1), x, [&](const std::string& name) { return is_down(name) ? down.view() : gate_up.view(); });
  std::vector<double> sum(whole.size(), 0.0);
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    Tensor part_gate_up({2 * kShare, kHidden}, DType::kF32), part_down({kHidden, kShare}, DType::kF32);
    for (int64_t half = 0; half < 2; ++half)
      copy_elements(gate_up.view().narrow(0, half * kWide + rank * kShare, kShare),
                    part_gate_up.view().narrow(0, half * kShare, kShare));
    copy_elements(down.view().narrow(1, rank * kShare, kShare), part_down);
    std::vector<double> part = run(init(kRanks), x, [&](const std::string& name) {
      return is_down(name) ? part_down.view() : part_gate_up.view();
    });
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], whole[i], 1e-3) << i;
}

}  // namespace
}  // namespace fk
