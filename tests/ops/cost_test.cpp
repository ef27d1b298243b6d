// A cost is the least a call must do: it never counts bytes that need not move.
#include <gtest/gtest.h>

#include "ops/l1/embedding.h"
#include "ops/l2/attention_block.h"
#include "ops/l2/vocab_parallel_embedding.h"
#include "ops/registry.h"

namespace fk {
namespace {

TEST(DistinctRows, AreNeverMoreThanRowsOrPicks) {
  EXPECT_NEAR(distinct_rows(1e9, 5), 5, 1e-6);
  EXPECT_NEAR(distinct_rows(4, 1000), 4, 1e-6);
  EXPECT_NEAR(distinct_rows(2, 2), 1.5, 1e-12);  // half the time both picks fall on one row
  EXPECT_EQ(distinct_rows(1, 7), 1);
  EXPECT_EQ(distinct_rows(0, 7), 0);
  EXPECT_EQ(distinct_rows(7, 0), 0);
}

// Outputs and states can be written; inputs, states and weights read: no contract counts more than there is.
TEST(Cost, IsNeverMoreThanTheTensors) {
  for (const OperatorInfo* info : Registry::instance().operators()) {
    const OperatorInfo& op = *info;
    if (op.level > 1) continue;  // weights, caches and metadata of the context are not among their arguments
    for (const OperatorInfo::ErasedCase& c : op.cases()) {
      Inputs inputs = op.inputs(c.init, c.workload);
      std::vector<Tensor> tensors;
      std::vector<OptView> views;
      tensors.reserve(inputs.size());
      double readable = 0, writable = 0;
      for (size_t i = 0; i < inputs.size(); ++i) {
        views.emplace_back();
        if (!inputs[i]) continue;
        tensors.emplace_back(inputs[i]->spec);
        views.back() = OptView(tensors.back().view());
        readable += static_cast<double>(inputs[i]->spec.size_bytes());
        if (op.args[i].role == Role::kState) writable += static_cast<double>(inputs[i]->spec.size_bytes());
      }
      std::unique_ptr<Node> node = op.build(c.init, {});
      for (const ParamSpec& p : collect_params(*node)) readable += static_cast<double>(p.spec.size_bytes());
      OutputSpecs outputs = node->outputs(views);
      for (const auto& spec : outputs.specs)
        if (spec) writable += static_cast<double>(spec->size_bytes());
      Cost cost = op.cost(c.init, c.workload);
      EXPECT_LE(cost.read_bytes, readable) << op.name << ", " << c.label;
      EXPECT_LE(cost.written_bytes, writable) << op.name << ", " << c.label;
      EXPECT_EQ(cost.bytes(), cost.read_bytes + cost.written_bytes);
    }
  }
}

TEST(Cost, OfAnEmbeddingCountsTheRowsGathered) {
  Embedding::Init init{.num_embeddings = 1 << 20, .embedding_dim = 64, .dtype = DType::kBF16};
  Cost cost = Embedding::cost(init, Workload::tokens(8));
  EXPECT_NEAR(cost.read_bytes, 8 * 8 + 8 * 128, 0.1);
  EXPECT_EQ(cost.written_bytes, 8 * 128);
  init.num_embeddings = 2;
  EXPECT_LE(Embedding::cost(init, Workload::tokens(8)).read_bytes, 8 * 8 + 2 * 128);
}

// A rank of four holds a quarter of the rows, and writes zeros for all other tokens.
TEST(Cost, OfARanksEmbeddingCountsItsOwnRows) {
  VocabParallelEmbedding::Init init{
      .num_embeddings = 1 << 20, .embedding_dim = 64, .tp_size = 4, .reduce_results = false};
  Cost cost = VocabParallelEmbedding::cost(init, Workload::tokens(8));
  EXPECT_NEAR(cost.read_bytes, 8 * 8 + 2 * 128, 0.1);
  EXPECT_EQ(cost.written_bytes, 8 * 128);
}

// In a block new keys and values are made on the chip: they are written to the cache and not read from memory.
TEST(Cost, OfAnAttentionBlockReadsWeightsInputAndCache) {
  AttentionBlockInit init{.hidden_size = 64, .num_heads = 4, .num_kv_heads = 2, .head_dim = 16};
  Cost cost = AttentionBlock::cost(init, Workload::batch({{1, 9}}));
  double weights = 64 * (64 + 2 * 32) + 64 * 64, cache = 9 * 2 * 32;
  EXPECT_EQ(cost.read_bytes, 2 * (weights + 64 + cache));
  EXPECT_EQ(cost.written_bytes, 2 * (64 + 2 * 32));
}

}  // namespace
}  // namespace fk
