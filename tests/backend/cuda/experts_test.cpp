// Models with experts of real size in the kernel for a whole token: decoding gives the logits of a prefill, where other
// kernels multiply, and the hand-over of weights changes nothing. The conformance test has experts that fit one slot of
// the kernel's ring; these fill the ring several times.
#include <algorithm>
#include <cmath>

#include "engine/model_executor.h"
#include "models/resolve.h"
#include "tests/backend/cuda/on_device.h"

namespace fk {
namespace {

struct Cut {
  const char* model;
  const char* experts;  // name of the field
  int64_t chosen;       // as many as there are: with fewer, rounding could change the choice
};

class ExpertsOfRealSize : public OnDevice, public testing::WithParamInterface<Cut> {
 protected:
  // Two layers of the model.
  Model load() {
    ModelSource source = resolve_model(GetParam().model);
    Fields& init = source.config.init;
    EXPECT_TRUE(set_field(init, "num_hidden_layers", int64_t{2}) &&
                set_field(init, GetParam().experts, GetParam().chosen) &&
                set_field(init, "num_experts_per_tok", GetParam().chosen));
    source.config.facts.num_hidden_layers = 2;
    return load_model(source, {.format = LoadFormat::kDummy, .dtype = DType::kBF16, .seed = 7, .device = kCuda}, pool_);
  }

  static std::vector<float> to_host(const View& logits) {
    std::vector<float> values(static_cast<size_t>(logits.numel()));
    copy_between(logits, View(values.data(), logits.spec()));
    return values;
  }

  ThreadPool pool_{2};
};

TEST_P(ExpertsOfRealSize, DecodeAsTheyPrefillHoweverWarpsHandOver) {
  Model model = load();
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < 24; ++i) tokens.push_back((i * 7919 + 3) % model.config.facts.vocab_size);
  std::span<const int64_t> all(tokens);
  std::vector<float> first, prefilled;
  for (const char* way : {"", "lanes", "1", "2"}) {
    setenv("FASTKERNELS_DEBUG_HANDOVER", way, 1);
    ModelExecutor executor(model, pool_, {.max_sequences = 2, .max_context = 64, .max_step_tokens = 64});
    RunningSequence sequence = executor.start();
    executor.prefill(sequence, all.first(22));
    std::vector<float> logits;
    for (size_t i = 22; i < tokens.size(); ++i) {
      const NewTokens item[] = {{&sequence, all.subspan(i, 1)}};
      logits = to_host(executor.forward(item));
    }
    if (first.empty()) {
      first = logits;
      RunningSequence whole = executor.start();
      prefilled = to_host(executor.prefill(whole, all));
    }
    EXPECT_TRUE(logits == first) << "handed over by '" << way << "'";
  }
  unsetenv("FASTKERNELS_DEBUG_HANDOVER");
  double largest = 0, scale = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    ASSERT_TRUE(std::isfinite(first[i]));
    largest = std::max(largest, static_cast<double>(std::fabs(first[i] - prefilled[i])));
    scale = std::max(scale, static_cast<double>(std::fabs(prefilled[i])));
  }
  EXPECT_GT(scale, 0);
  EXPECT_LE(largest, 0.06 * scale);
}

INSTANTIATE_TEST_SUITE_P(Models, ExpertsOfRealSize,
                         testing::Values(Cut{"gpt-oss-20b", "num_local_experts", 4},
                                         Cut{"qwen3-30b-a3b", "num_experts", 8},
                                         Cut{"mixtral-8x7b", "num_local_experts", 2}),
                         [](const auto& p) {
                           std::string name = p.param.model;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

}  // namespace
}  // namespace fk
