// Layers of Gemma 4 of real size, one sliding and one global, in the kernels for one token: decoding gives the logits
// of a prefill, and of the operators that these kernels stand for.
#include <algorithm>
#include <cmath>

#include "engine/model_executor.h"
#include "models/resolve.h"
#include "ops/unfused.h"
#include "tests/backend/cuda/on_device.h"

namespace fk {
namespace {

class Gemma4Layer : public OnDevice {
 protected:
  void TearDown() override { leave_unfused({}); }

  // As many experts as a token has: with more, rounding could change the choice.
  Model load() {
    ModelSource source = resolve_model("gemma4-26b-a4b");
    Fields& init = source.config.init;
    EXPECT_TRUE(set_field(init, "num_hidden_layers", int64_t{2}) && set_field(init, "num_experts", int64_t{8}) &&
                set_field(init, "vocab_size", int64_t{1000}) &&
                set_field(init, "layer_is_sliding", std::vector<int64_t>{1, 0}));
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

  static int64_t calls_of_layers(const Model& model, std::string_view implementation) {
    std::vector<DispatchCount> counts;
    walk(*model.root, [&](const Node& node, int) { node.count_dispatches(counts); });
    int64_t calls = 0;
    for (const DispatchCount& count : counts)
      if (count.op == "gemma4_decoder_layer" && count.implementation == implementation) calls += count.calls;
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

TEST_F(Gemma4Layer, DecodesAsItPrefillsAndAsItsParts) {
  Model model = load();
  const std::vector<float> fused = decoded(model);
  EXPECT_EQ(calls_of_layers(model, "cuda.stream_groups"), 4);  // two tokens in two layers
  const std::vector<int64_t> tokens = text();
  ModelExecutor executor(model, pool_, {.max_sequences = 1, .max_context = 64, .max_step_tokens = 64});
  RunningSequence whole = executor.start();
  EXPECT_LE(difference(fused, to_host(executor.prefill(whole, tokens))), 0.06);

  // A part that may be replaced: the layer is made of its parts again.
  leave_unfused({"layer_scalar"});
  Model parts = load();
  EXPECT_LE(difference(fused, decoded(parts)), 0.03);
  EXPECT_EQ(calls_of_layers(parts, "cuda.stream_groups"), 0);
}

}  // namespace
}  // namespace fk
