// LLaDA: what it reads and refuses.
#include <gtest/gtest.h>

#include "core/json.h"
#include "models/config.h"
#include "models/family.h"
#include "ops/l4/llada_model_lm.h"
#include "tests/models/error_text.h"
#include "tests/models/init_of.h"

namespace fk {
namespace {

// The keys of the published file, with small sizes.
constexpr const char* kLLaDA = R"({"activation_type": "silu", "alibi": false, "alibi_bias_max": 8.0,
  "architectures": ["LLaDAModelLM"], "attention_dropout": 0.0, "attention_layer_norm": false,
  "attention_layer_norm_with_affine": true, "bias_for_layer_norm": false, "block_group_size": 1, "block_type": "llama",
  "d_model": 64, "embedding_size": 320, "eos_token_id": 300, "include_bias": false, "include_qkv_bias": false,
  "input_emb_norm": false, "layer_norm_type": "rms", "layer_norm_with_affine": true, "mask_token_id": 311,
  "max_sequence_length": 4096, "mlp_hidden_size": 96, "mlp_ratio": 4, "model_type": "llada",
  "multi_query_attention": null, "n_heads": 4, "n_kv_heads": 4, "n_layers": 2, "pad_token_id": 300,
  "precision": "amp_bf16", "rms_norm_eps": 1e-05, "rope": true, "rope_full_precision": true, "rope_theta": 500000.0,
  "scale_logits": false, "torch_dtype": "bfloat16", "use_cache": false, "vocab_size": 312, "weight_tying": false})";

ModelConfig llada_with(const std::string& key, const Json& value) {
  Json json = parse_json(kLLaDA, "a test");
  json[key] = value;
  return config_from_json(json, "config.json");
}
std::string llada_refusal(const std::string& key, const Json& value) {
  return error_of([&] { llada_with(key, value); });
}

TEST(LLaDA, ReadsThePublishedFile) {
  const ModelConfig config = config_from_json(parse_json(kLLaDA, "a test"), "config.json");
  auto init = init_of<LLaDAModelLM>(config);
  EXPECT_EQ(init.vocab_size, 320);  // the rows of the embedding
  EXPECT_EQ(init.head_dim, 16);
  EXPECT_EQ(init.rope_theta, 500000);
  EXPECT_EQ(init.dtype, DType::kBF16);
  EXPECT_EQ(config.facts.task, Task::kDiffusionLM);
  EXPECT_EQ(config.facts.mask_id, 311);
  EXPECT_EQ(config.facts.max_position_embeddings, 4096);
  EXPECT_EQ(init_of<LLaDAModelLM>(llada_with("n_kv_heads", nullptr)).num_key_value_heads, 4);
  Json one = parse_json(kLLaDA, "a test");
  one.update({{"n_kv_heads", nullptr}, {"multi_query_attention", true}});
  EXPECT_EQ(init_of<LLaDAModelLM>(config_from_json(one, "config.json")).num_key_value_heads, 1);
  expect_sentence(error_of([&] { config.require_task(Task::kCausalLM, "llada", "generate"); }),
                  {"a diffusion language model", "fastkernels denoise"});
}

TEST(LLaDA, RefusesWhatItLacks) {
  expect_sentence(llada_refusal("block_type", "sequential"), {"block_type", "sequential", "llama"});
  expect_sentence(llada_refusal("layer_norm_type", "low_precision"), {"layer_norm_type", "rms"});
  expect_sentence(llada_refusal("activation_type", "swiglu"), {"activation_type", "silu"});
  for (const char* flag : {"alibi", "attention_layer_norm", "bias_for_layer_norm", "input_emb_norm", "scale_logits"})
    expect_sentence(llada_refusal(flag, true), {flag});
  for (const char* flag : {"rope", "layer_norm_with_affine"}) expect_sentence(llada_refusal(flag, false), {flag});
  expect_sentence(llada_refusal("block_group_size", 4), {"block_group_size"});
  expect_sentence(llada_refusal("n_kv_heads", 3), {"n_heads 4", "n_kv_heads 3"});
  expect_sentence(llada_refusal("n_heads", 64), {"d_model 64", "even"});
  expect_sentence(llada_refusal("mask_token_id", nullptr), {"mask_token_id"});
  expect_sentence(llada_refusal("mask_token_id", 320), {"mask_token_id", "319"});
  expect_sentence(llada_refusal("embedding_size", 311), {"embedding_size", "312"});
}

}  // namespace
}  // namespace fk
