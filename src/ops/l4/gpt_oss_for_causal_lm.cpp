#include "ops/l4/gpt_oss_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<GptOssForCausalLM>> GptOssForCausalLM::cases() {
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  Init c{
      {.vocab_size = 305,
       .hidden_size = 64,
       .intermediate_size = 40,
       .num_hidden_layers = 2,
       .num_attention_heads = 4,
       .num_key_value_heads = 2,
       .head_dim = 16,
       .max_position_embeddings = 512,
       .rope_theta = 150000,
       .rope_scaling = {.type = "yarn", .factor = 8, .original_max_position_embeddings = 64, .attention_factor = 1.2}},
      {.sliding_window = 8, .layer_is_sliding = {1, 0}}};
  c.num_local_experts = c.num_experts_per_tok = 3;
  std::vector<Case<GptOssForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  c.experts_format = "mxfp4";
  c.hidden_size = 96;
  c.intermediate_size = 32;
  c.head_dim = 64;
  for (const Workload& w : one_token_workloads())
    cases.push_back({std::to_string(w.sequences[0].context_len + 1) + " keys, mxfp4", c, w});
  c.hidden_size = 288;
  c.intermediate_size = 544;
  c.num_attention_heads = 8;
  c.num_key_value_heads = 1;
  c.attention_bias = false;
  cases.push_back({"one token, larger experts", c, Workload::batch({{1, 9}})});
  c.hidden_size = 96;
  c.intermediate_size = 64;
  c.num_local_experts = 12;
  c.attention_bias = true;
  cases.push_back({"one token, few of many experts", c, Workload::batch({{1, 9}})});
  return cases;
}

GptOssDecoderLayer::Init GptOssForCausalLM::layer(const Init& init, int64_t i) {
  GptOssDecoderLayer::Init layer{common_layer(init),
                                 {{.hidden_size = init.hidden_size,
                                   .num_experts = init.num_local_experts,
                                   .top_k = init.num_experts_per_tok,
                                   .intermediate_size = init.intermediate_size,
                                   .tp_size = init.tp_size,
                                   .tp_rank = init.tp_rank,
                                   .reduce_results = init.tp_reduce,
                                   .dtype = init.dtype},
                                  init.swiglu_limit,
                                  init.experts_format}};
  layer.attention.bias = layer.attention.bias_o_proj = init.attention_bias;
  layer.attention.sliding_window = init.window_of(i);
  return layer;
}

namespace {
using ComposedGptOssForCausalLM = ComposedCausalLM<GptOssForCausalLM, GptOssDecoderLayer, RMSNorm>;
FK_COMPOSITION(GptOssForCausalLM, ComposedGptOssForCausalLM);
}  // namespace
}  // namespace fk
