#include "ops/l4/mixtral_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/l3/mixtral_decoder_layer.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<MixtralForCausalLM>> MixtralForCausalLM::cases() {
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  Init c{{.vocab_size = 300,
          .hidden_size = 64,
          .intermediate_size = 72,
          .num_hidden_layers = 2,
          .num_attention_heads = 8,
          .num_key_value_heads = 2,
          .head_dim = 8,
          .max_position_embeddings = 512}};
  c.num_local_experts = 3;
  c.num_experts_per_tok = 3;
  c.sliding_window = 6;
  std::vector<Case<MixtralForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  c.head_dim = 64;
  for (const Workload& w : one_token_workloads())
    cases.push_back({std::to_string(w.sequences[0].context_len + 1) + " keys", c, w});
  return cases;
}

SparseDecoderLayerInit MixtralForCausalLM::layer(const Init& init, int64_t) {
  SparseDecoderLayerInit layer{common_layer(init),
                               {.hidden_size = init.hidden_size,
                                .num_experts = init.num_local_experts,
                                .top_k = init.num_experts_per_tok,
                                .intermediate_size = init.intermediate_size,
                                .tp_size = init.tp_size,
                                .tp_rank = init.tp_rank,
                                .reduce_results = init.tp_reduce,
                                .dtype = init.dtype}};
  layer.attention.sliding_window = init.sliding_window;
  return layer;
}

namespace {
using ComposedMixtralForCausalLM = ComposedCausalLM<MixtralForCausalLM, MixtralDecoderLayer, RMSNorm>;
FK_COMPOSITION(MixtralForCausalLM, ComposedMixtralForCausalLM);
}  // namespace
}  // namespace fk
