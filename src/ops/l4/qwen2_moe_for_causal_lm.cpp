#include "ops/l4/qwen2_moe_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/l3/qwen2_moe_decoder_layer.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Qwen2MoeForCausalLM>> Qwen2MoeForCausalLM::cases() {
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  Init c{{.vocab_size = 301,
          .hidden_size = 56,
          .intermediate_size = 90,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 4,
          .head_dim = 14,
          .max_position_embeddings = 512},
         {},
         {.num_experts = 3, .num_experts_per_tok = 3, .moe_intermediate_size = 36}};
  c.shared_expert_intermediate_size = 44;
  std::vector<Case<Qwen2MoeForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  return cases;
}

SparseDecoderLayerInit Qwen2MoeForCausalLM::layer(const Init& init, int64_t i) {
  SparseDecoderLayerInit layer = sparse_layer(init, init, i);
  layer.moe.shared_expert_intermediate_size = layer.has_experts() ? init.shared_expert_intermediate_size : 0;
  layer.attention.bias = init.qkv_bias;
  layer.attention.sliding_window = init.window_of(i);
  return layer;
}

namespace {
using ComposedQwen2MoeForCausalLM = ComposedCausalLM<Qwen2MoeForCausalLM, Qwen2MoeDecoderLayer, RMSNorm>;
FK_COMPOSITION(Qwen2MoeForCausalLM, ComposedQwen2MoeForCausalLM);
}  // namespace
}  // namespace fk
