// Small models of families whose quantised checkpoints are dequantised, and what such checkpoints say of themselves.
#pragma once

#include <string>

namespace fk {

// Matrices have multiples of 32 columns, so that all formats fit; blocks of 128 end within them.
inline constexpr const char* kQwen3Next = R"({"architectures":["Qwen3NextForCausalLM"],"model_type":"qwen3_next",
  "hidden_size":160,"intermediate_size":192,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,
  "head_dim":32,"vocab_size":96,"max_position_embeddings":128,"num_experts":4,"num_experts_per_tok":2,
  "moe_intermediate_size":64,"shared_expert_intermediate_size":64,"full_attention_interval":2,
  "linear_key_head_dim":32,"linear_value_head_dim":32,"linear_num_key_heads":2,"linear_num_value_heads":4,
  "linear_conv_kernel_dim":4,"rope_theta":10000,"partial_rotary_factor":0.25,"dtype":"float32"})";
inline constexpr const char* kKimiLinear = R"({"architectures":["KimiLinearForCausalLM"],"model_type":"kimi_linear",
  "first_k_dense_replace":1,"hidden_size":160,"intermediate_size":192,"kv_lora_rank":32,
  "linear_attn_config":{"full_attn_layers":[3],"kda_layers":[1,2],"head_dim":32,"num_heads":4,
  "short_conv_kernel_size":4},"mla_use_nope":true,"model_max_length":128,"moe_intermediate_size":64,
  "num_attention_heads":4,"num_experts":4,"num_experts_per_token":2,"num_hidden_layers":3,"num_key_value_heads":4,
  "num_shared_experts":1,"q_lora_rank":null,"qk_nope_head_dim":32,"qk_rope_head_dim":32,"v_head_dim":32,
  "vocab_size":96,"dtype":"float32"})";
inline constexpr const char* kJamba = R"({"architectures":["JambaForCausalLM"],"model_type":"jamba","hidden_size":160,
  "intermediate_size":192,"num_hidden_layers":4,"num_attention_heads":5,"num_key_value_heads":5,"num_experts":4,
  "num_experts_per_tok":2,"attn_layer_period":2,"attn_layer_offset":1,"expert_layer_period":2,"expert_layer_offset":1,
  "mamba_d_state":16,"mamba_d_conv":4,"mamba_expand":2,"mamba_dt_rank":32,"vocab_size":96,
  "max_position_embeddings":128,"dtype":"float32"})";
inline constexpr const char* kGemma4 = R"({"architectures":["Gemma4ForCausalLM"],"model_type":"gemma4_text",
  "attention_k_eq_v":true,"enable_moe_block":true,"final_logit_softcapping":30.0,"global_head_dim":64,"head_dim":32,
  "hidden_size":160,"hidden_size_per_layer_input":0,"intermediate_size":192,"max_position_embeddings":128,
  "moe_intermediate_size":64,"num_attention_heads":4,"num_experts":4,"num_global_key_value_heads":2,
  "num_hidden_layers":2,"num_key_value_heads":2,"num_kv_shared_layers":0,
  "layer_types":["sliding_attention","full_attention"],"sliding_window":16,"tie_word_embeddings":true,
  "top_k_experts":2,"vocab_size":96,"dtype":"float32"})";
inline constexpr const char* kDeepseekV3 = R"({"architectures":["DeepseekV3ForCausalLM"],"model_type":"deepseek_v3",
  "hidden_size":160,"intermediate_size":192,"moe_intermediate_size":64,"num_hidden_layers":2,"num_attention_heads":4,
  "num_key_value_heads":4,"n_routed_experts":4,"num_experts_per_tok":2,"n_shared_experts":1,"n_group":1,"topk_group":1,
  "first_k_dense_replace":1,"kv_lora_rank":32,"q_lora_rank":64,"qk_nope_head_dim":32,"qk_rope_head_dim":32,
  "v_head_dim":32,"vocab_size":96,"max_position_embeddings":128,"num_nextn_predict_layers":1,"rope_theta":10000,
  "dtype":"float32"})";

inline constexpr const char* kQwen3Moe = R"({"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe",
  "hidden_size":160,"intermediate_size":192,"moe_intermediate_size":64,"num_hidden_layers":2,"num_attention_heads":4,
  "num_key_value_heads":2,"head_dim":32,"num_experts":4,"num_experts_per_tok":2,"norm_topk_prob":true,"vocab_size":96,
  "max_position_embeddings":128,"dtype":"float32"})";
inline constexpr const char* kPhi3 = R"({"architectures":["Phi3ForCausalLM"],"model_type":"phi3","pad_token_id":0,
  "hidden_size":160,"intermediate_size":192,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,
  "head_dim":32,"vocab_size":96,"max_position_embeddings":128,"dtype":"float32"})";
inline constexpr const char* kLlama4 = R"({"architectures":["Llama4ForCausalLM"],"model_type":"llama4_text",
  "hidden_size":160,"intermediate_size":64,"intermediate_size_mlp":192,"interleave_moe_layer_step":1,
  "num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32,"num_local_experts":4,
  "num_experts_per_tok":1,"vocab_size":96,"max_position_embeddings":128,"rope_theta":10000,"dtype":"float32"})";
inline constexpr const char* kGptOss = R"({"architectures":["GptOssForCausalLM"],"model_type":"gpt_oss",
  "hidden_size":160,"intermediate_size":64,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,
  "head_dim":32,"num_local_experts":4,"num_experts_per_tok":2,"vocab_size":96,"max_position_embeddings":128,
  "dtype":"float32"})";

inline constexpr const char* kGptqConfig = R"({"quant_method":"gptq","bits":4,"group_size":32,"desc_act":false})";
inline constexpr const char* kBlockConfig = R"({"quant_method":"fp8","fmt":"e4m3","activation_scheme":"dynamic",
  "weight_block_size":[128,128],"modules_to_not_convert":["lm_head"]})";
inline std::string compressed(const std::string& container, const std::string& weights,
                              const std::string& ignore = "[]") {
  return R"({"quant_method":"compressed-tensors","format":")" + container + R"(","ignore":)" + ignore +
         R"(,"config_groups":{"group_0":{"targets":["Linear"],"weights":)" + weights + "}}}";
}
inline std::string packed_config(const std::string& ignore = "[]") {
  return compressed("pack-quantized", R"({"num_bits":4,"type":"int","strategy":"group","group_size":32})", ignore);
}
inline std::string nvfp4_config() {
  return compressed("nvfp4-pack-quantized",
                    R"({"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16})");
}
inline std::string channel_config() {
  return compressed("float-quantized", R"({"num_bits":8,"type":"float","strategy":"channel"})");
}

// What such checkpoints never quantise, whatever their config says.
inline bool stays_plain(const std::string& path) {
  const std::string module = path.substr(path.rfind('.') + 1);
  for (const char* plain : {"embed_tokens", "lm_head", "gate", "router", "proj", "shared_expert_gate", "in_proj_ba",
                            "conv1d", "dt_proj", "x_proj", "b_proj", "q_conv1d", "k_conv1d", "v_conv1d"})
    if (module == plain) return true;
  return false;
}
inline auto all_in(const std::string& format) {
  return [format](const std::string& path) { return stays_plain(path) ? std::string() : format; };
}

}  // namespace fk
