// Layers and blocks of real size in the kernels for few tokens: decoding gives the logits of a prefill, and of the
// operators that these kernels stand for.
#include <algorithm>
#include <cmath>

#include "engine/model_executor.h"
#include "models/resolve.h"
#include "ops/unfused.h"
#include "tests/backend/cuda/on_device.h"

namespace fk {
namespace {

struct FusedBlock {
  const char* name;
  const char* model;
  Fields changes;  // of its config: two layers, and few tokens in the vocabulary
  const char* op;
  const char* part;  // of it
};
void PrintTo(const FusedBlock& block, std::ostream* os) { *os << block.name; }

class FusedBlocks : public OnDevice, public testing::WithParamInterface<FusedBlock> {
 protected:
  void TearDown() override { leave_unfused({}); }

  Model load() {
    ModelSource source = resolve_model(GetParam().model);
    for (const Field& change : GetParam().changes)
      EXPECT_TRUE(set_field(source.config.init, change.name, change.value)) << change.name;
    source.config.facts.num_hidden_layers = 2;
    source.config.facts.vocab_size = 1000;
    return load_model(source, {.format = LoadFormat::kDummy, .dtype = DType::kBF16, .seed = 7, .device = kCuda}, pool_);
  }

  static std::vector<float> to_host(const View& logits) {
    std::vector<float> values(static_cast<size_t>(logits.numel()));
    copy_between(logits, View(values.data(), logits.spec()));
    return values;
  }

  static std::vector<int64_t> text() {
    std::vector<int64_t> tokens;
    for (int64_t i = 0; i < 40; ++i) tokens.push_back((i * 7919 + 3) % 1000);
    return tokens;
  }

  // Of the last token: the last two alone, after a prefill of the others.
  std::vector<float> decoded(Model& model) {
    const std::vector<int64_t> tokens = text();
    std::span<const int64_t> all(tokens);
    ModelExecutor executor(model, pool_, {.max_sequences = 2, .max_context = 64, .max_step_tokens = 64});
    RunningSequence sequence = executor.start();
    executor.prefill(sequence, all.first(38));
    std::vector<float> logits;
    for (size_t i = 38; i < tokens.size(); ++i) {
      const NewTokens item[] = {{&sequence, all.subspan(i, 1)}};
      logits = to_host(executor.forward(item));
    }
    return logits;
  }

  static int64_t fused_calls(const Model& model) {
    std::vector<DispatchCount> counts;
    walk(*model.root, [&](const Node& node, int) { node.count_dispatches(counts); });
    int64_t calls = 0;
    for (const DispatchCount& count : counts)
      if (count.op == GetParam().op && count.implementation == "cuda.stream_groups") calls += count.calls;
    return calls;
  }

  // The largest difference, as a share of the largest logit.
  static double difference(const std::vector<float>& a, const std::vector<float>& b) {
    double largest = 0, scale = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return INFINITY;
      largest = std::max(largest, static_cast<double>(std::fabs(a[i] - b[i])));
      scale = std::max(scale, static_cast<double>(std::fabs(b[i])));
    }
    return scale > 0 ? largest / scale : INFINITY;
  }

  ThreadPool pool_{2};
};

TEST_P(FusedBlocks, DecodeAsTheyPrefillAndAsTheirParts) {
  Model model = load();
  const std::vector<float> fused = decoded(model);
  EXPECT_EQ(fused_calls(model), 4);  // two tokens in two layers
  const std::vector<int64_t> tokens = text();
  ModelExecutor executor(model, pool_, {.max_sequences = 1, .max_context = 64, .max_step_tokens = 64});
  RunningSequence whole = executor.start();
  EXPECT_LE(difference(fused, to_host(executor.prefill(whole, tokens))), 0.06);

  // A part that may be replaced: the block is made of its parts again.
  leave_unfused({GetParam().part});
  Model parts = load();
  EXPECT_LE(difference(fused, decoded(parts)), 0.03);
  EXPECT_EQ(fused_calls(parts), 0);
}

// As many experts as a token has: with more, rounding could change the choice.
INSTANTIATE_TEST_SUITE_P(Models, FusedBlocks,
                         testing::Values(FusedBlock{"gemma4",
                                                    "gemma4-26b-a4b",
                                                    {{"num_hidden_layers", int64_t{2}},
                                                     {"vocab_size", int64_t{1000}},
                                                     {"num_experts", int64_t{8}},
                                                     {"layer_is_sliding", std::vector<int64_t>{1, 0}}},
                                                    "gemma4_decoder_layer",
                                                    "layer_scalar"},
                                         FusedBlock{"qwen3_next",
                                                    "qwen3-next-80b-a3b",
                                                    {{"num_hidden_layers", int64_t{2}},
                                                     {"vocab_size", int64_t{1000}},
                                                     {"num_experts", int64_t{10}},
                                                     {"layer_is_linear", std::vector<int64_t>{1, 0}}},
                                                    "qwen3_next_decoder_layer",
                                                    "sigmoid_mul_add"},
                                         FusedBlock{"qwen2_moe",
                                                    "qwen1.5-moe-a2.7b",
                                                    {{"num_hidden_layers", int64_t{2}},
                                                     {"vocab_size", int64_t{1000}},
                                                     {"num_experts", int64_t{4}}},
                                                    "qwen2_moe_sparse_moe_block",
                                                    "topk_softmax"},
                                         FusedBlock{"deepseek_v32",
                                                    "deepseek-v3.2",
                                                    {{"num_hidden_layers", int64_t{2}}, {"vocab_size", int64_t{1000}}},
                                                    "deepseek_v32_mla_attention",
                                                    "indexer"}),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace fk
