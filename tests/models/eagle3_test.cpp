// EAGLE-3 heads: what is read of both layouts, and what is refused.
#include <gtest/gtest.h>

#include "core/json.h"
#include "models/catalog.h"
#include "models/checkpoint_names.h"
#include "models/config.h"
#include "models/family.h"
#include "ops/l4/eagle3_llama_for_causal_lm.h"
#include "ops/registry.h"
#include "tests/models/error_text.h"
#include "tests/models/init_of.h"

namespace fk {
namespace {

// As the package speculators 0.9.0 saves it.
constexpr const char* kSpeculators = R"({"architectures": ["Eagle3DraftModel"],
  "auto_map": {"": "config.Eagle3SpeculatorConfig"}, "draft_vocab_size": 48, "dtype": "float32",
  "eagle_aux_hidden_state_layer_ids": [2, 5, 7], "embed_requires_grad": false, "fc_norm": false,
  "norm_before_fc": false, "norm_before_residual": true, "norm_output": false,
  "speculators_config": {"algorithm": "eagle3", "default_proposal_method": "greedy",
    "proposal_methods": [{"accept_tolerance": 0.0, "proposal_type": "greedy", "speculative_tokens": 3,
      "verifier_accept_k": 1}], "verifier": {"architectures": [], "name_or_path": null}},
  "speculators_model_type": "eagle3", "speculators_version": "0.9.0", "target_hidden_size": null,
  "tie_word_embeddings": false, "transformer_layer_config": {"attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 1, "eos_token_id": 2, "head_dim": 16, "hidden_act": "silu", "hidden_size": 64,
    "initializer_range": 0.02, "intermediate_size": 96, "max_position_embeddings": 64, "mlp_bias": false,
    "model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 1, "num_key_value_heads": 2,
    "pad_token_id": null, "pretraining_tp": 1, "rms_norm_eps": 1e-06,
    "rope_parameters": {"rope_theta": 20000.0, "rope_type": "default"}, "tie_word_embeddings": false,
    "use_cache": true, "vocab_size": 96}, "transformers_version": "5.17.0"})";

constexpr const char* kOlder = R"({"architectures": ["LlamaForCausalLMEagle3"], "attention_bias": false,
  "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96,
  "max_position_embeddings": 2048, "model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 1,
  "num_key_value_heads": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null,
  "tie_word_embeddings": true, "torch_dtype": "float16", "vocab_size": 96, "draft_vocab_size": 32})";

Eagle3LlamaForCausalLM::Init head_of(const char* text, const Json& changed = Json::object(),
                                     const Json& layer = Json::object()) {
  Json json = parse_json(text, "a test");
  json.update(changed);
  if (!layer.empty()) json["transformer_layer_config"].update(layer);
  return init_of<Eagle3LlamaForCausalLM>(config_from_json(json, "config.json"));
}

TEST(Eagle3Config, ReadsThePackagesLayout) {
  auto init = head_of(kSpeculators);
  EXPECT_EQ(init.hidden_size, 64);
  EXPECT_EQ(init.vocab_size, 96);
  EXPECT_EQ(init.draft_vocab_size, 48);
  EXPECT_EQ(init.target_hidden_size, 64);
  EXPECT_EQ(init.eagle_aux_hidden_state_layer_ids, (std::vector<int64_t>{2, 5, 7}));
  EXPECT_EQ(init.features(), 192);
  EXPECT_EQ(init.rope_theta, 20000);
  EXPECT_EQ(init.dtype, DType::kF32);
  EXPECT_TRUE(init.norm_before_residual);
  EXPECT_FALSE(init.qk_norm);
  EXPECT_EQ(init.layer_name, "layers.0");
  EXPECT_TRUE(head_of(kSpeculators, {{"architectures", {"Eagle3Speculator"}}}, {{"model_type", "qwen3"}}).qk_norm);
  EXPECT_EQ(head_of(kSpeculators, {{"target_hidden_size", 40}}).features(), 120);
  EXPECT_EQ(head_of(kSpeculators, {{"dtype", nullptr}}, {{"dtype", "bfloat16"}}).dtype, DType::kBF16);
}

TEST(Eagle3Config, ReadsTheOlderLayout) {
  auto init = head_of(kOlder);
  EXPECT_EQ(init.draft_vocab_size, 32);
  EXPECT_TRUE(init.eagle_aux_hidden_state_layer_ids.empty());
  EXPECT_EQ(init.features(), 192);
  EXPECT_EQ(init.dtype, DType::kF16);
  EXPECT_EQ(init.layer_name, "midlayer");
  EXPECT_FALSE(init.tie_word_embeddings);
  EXPECT_FALSE(init.norm_before_residual);
  EXPECT_EQ(head_of(kOlder, {{"draft_vocab_size", nullptr}}).draft_vocab_size, 96);
  EXPECT_EQ(head_of(kOlder, {{"eagle_config", {{"eagle_aux_hidden_state_layer_ids", {1, 2, 3}}}}})
                .eagle_aux_hidden_state_layer_ids,
            (std::vector<int64_t>{1, 2, 3}));
}

TEST(Eagle3Config, IsNoLanguageModel) {
  const ModelConfig config = config_from_json(parse_json(kOlder, "a test"), "config.json");
  EXPECT_EQ(config.facts.task, Task::kDraftHead);
  EXPECT_FALSE(is_stateless(config.facts.task));
  expect_sentence(error_of([&] { config.require_task(Task::kCausalLM, "head", "generate"); }),
                  {"a head that guesses tokens of another model", "--speculative-config"});
}

TEST(Eagle3Config, RefusesWhatItLacks) {
  auto refusal = [](const char* text, const Json& changed, const Json& layer = Json::object()) {
    return error_of([&] { head_of(text, changed, layer); });
  };
  for (const char* flag : {"norm_before_fc", "fc_norm", "norm_output"})
    expect_sentence(refusal(kSpeculators, {{flag, true}}), {flag});
  expect_sentence(refusal(kOlder, {{"num_hidden_layers", 2}}), {"2 layers"});
  expect_sentence(refusal(kOlder, {{"draft_vocab_size", 97}}), {"draft_vocab_size 97", "96"});
  expect_sentence(refusal(kOlder, {{"sliding_window", 8}}), {"sliding window"});
  EXPECT_NO_THROW(head_of(kOlder, {{"sliding_window", 8}, {"use_sliding_window", false}})) << "it is switched off";
  expect_sentence(refusal(kOlder, {{"hidden_act", "gelu"}}), {"gelu"});
  expect_sentence(refusal(kOlder, {{"eagle_aux_hidden_state_layer_ids", {1}}}), {"64"});
  for (const Json& wrong : {Json::array(), Json(3), Json({1, -1, 2}), Json({1, "2", 3}), Json({1.5}), Json("x")})
    expect_sentence(refusal(kOlder, {{"eagle_aux_hidden_state_layer_ids", wrong}}),
                    {"eagle_aux_hidden_state_layer_ids", "[2, 16, 29]"});
  expect_sentence(refusal(kSpeculators, Json::object(), {{"model_type", "gemma3"}}), {"gemma3", "llama and qwen3"});
  expect_sentence(refusal(kSpeculators, Json::object(), {{"model_type", nullptr}}), {"model_type"});
  expect_sentence(refusal(kSpeculators, {{"model_type", "gemma3"}}), {"model_type"});
  expect_sentence(refusal(kSpeculators, {{"transformer_layer_config", 3}}), {"transformer_layer_config"});
}

TEST(Eagle3Config, ThePublishedHeadHasThePublishedSizes) {
  const CatalogEntry* entry = find_catalog("eagle3-llama-3.1-8b");
  ASSERT_NE(entry, nullptr);
  std::unique_ptr<Node> root =
      Registry::instance().at(entry->config.family->op).build(entry->config.init, {.oracle = true});
  int64_t count = 0;
  for (const ParamSpec& param : checkpoint_params(*root, entry->config))
    if (param.name != "embed_tokens.weight") count += param.spec.shape.numel();
  // fc; q, k, v of pairs and o; the feed-forward block; four norms; the head and its list of tokens.
  constexpr int64_t kD = 4096;
  EXPECT_EQ(count, 3 * kD * kD + 2 * kD * (kD + 2 * 1024) + kD * kD + 3 * kD * 14336 + 4 * kD + 32000 * kD + 32000);
}

}  // namespace
}  // namespace fk
