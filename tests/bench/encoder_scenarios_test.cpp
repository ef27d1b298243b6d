// Scenarios of encoders: their own batches, every call matched, and sequences kept apart.
#include <gtest/gtest.h>

#include <set>

#include "bench/scenarios/generate.h"

namespace fk {
namespace {

GeneratedScenarios scenarios_of(const std::string& model) {
  ScenarioSelection selection;
  selection.models = {model};
  selection.tp = {1};
  return generate_scenarios(selection);
}

TEST(EncoderScenarios, HaveBatchesOfTheirOwn) {
  for (const char* model : {"bge-m3", "siglip2-base"}) {
    GeneratedScenarios generated = scenarios_of(model);
    for (const LeftOut& left : generated.left_out) ADD_FAILURE() << left.what << ": " << left.reason;
    std::set<std::string> operators;
    for (const Scenario& s : generated.scenarios) {
      operators.insert(s.op);
      EXPECT_EQ(s.name.find("decode"), std::string::npos) << s.name;
    }
    EXPECT_TRUE(operators.contains("encoder_only_attention")) << model;
    EXPECT_FALSE(operators.contains("sample") || operators.contains("store_kvcache")) << model;
  }
}

// Attention within texts is far cheaper than over all tokens of a batch: the workload must keep them apart.
TEST(EncoderScenarios, AttentionSeesEveryTextAlone) {
  int seen = 0;
  for (const Scenario& s : scenarios_of("bge-m3").scenarios) {
    if (s.op != "flash_attn_prefill" && s.op != "encoder_only_attention" && s.op != "bert_layer") continue;
    if (s.name.find("encode-32x128") == std::string::npos) continue;
    EXPECT_EQ(s.workload.num_sequences(), 32) << s.op;
    ++seen;
  }
  EXPECT_EQ(seen, 3);
}

TEST(EncoderScenarios, ImagesAreSequencesOfPatches) {
  for (const Scenario& s : scenarios_of("siglip2-base").scenarios) {
    if (s.name.find("images-8") == std::string::npos) continue;
    if (s.op == "conv2d") {
      EXPECT_EQ(s.workload.num_tokens(), 8);
    } else if (s.op == "siglip_encoder_layer") {
      EXPECT_EQ(s.workload.sequences, std::vector<Sequence>(8, {196, 0}));
    }
  }
}

}  // namespace
}  // namespace fk
