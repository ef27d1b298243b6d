#include "ops/l4/jamba_for_causal_lm.h"

#include <cmath>

#include "core/error.h"
#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

JambaDecoderLayer::Init JambaForCausalLM::layer(const Init& init, int64_t i) {
  if (init.tp_size > 1) throw Error("Mamba blocks run on one rank; leave out --tp.");
  JambaDecoderLayer::Init layer{common_layer(init)};
  if (!init.has_attention(i))
    layer.mamba = {.hidden_size = init.hidden_size,
                   .intermediate_size = init.mamba_expand * init.hidden_size,
                   .state_size = init.mamba_d_state,
                   .conv_kernel = init.mamba_d_conv,
                   .time_step_rank = init.mamba_dt_rank,
                   .use_conv_bias = init.mamba_conv_bias,
                   .use_bias = init.mamba_proj_bias,
                   .inner_norms = "weighted",
                   .inner_norm_eps = init.rms_norm_eps,
                   .dtype = init.dtype};
  if (init.has_experts(i))
    layer.moe = {.hidden_size = init.hidden_size,
                 .num_experts = init.num_experts,
                 .top_k = init.num_experts_per_tok,
                 .intermediate_size = init.intermediate_size,
                 .renormalize = false,
                 .dtype = init.dtype};
  return layer;
}

Tolerance JambaForCausalLM::tolerance(const Init& init, DType dtype) {
  // Twice the roundings to dtype: a layer is two blocks with norms inside the first, through which its roundings come.
  // Sums in float are as of other models.
  Tolerance t = causal_lm_tolerance(init, dtype);
  double layers = 2 * std::sqrt(static_cast<double>(init.num_hidden_layers));
  return {t.relative, t.of_scale + layers * 2 * dtype_epsilon(dtype)};
}

std::vector<Case<JambaForCausalLM>> JambaForCausalLM::cases() {
  Init c{{.vocab_size = 307,
          .hidden_size = 40,
          .intermediate_size = 56,
          .num_hidden_layers = 4,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 10,
          .max_position_embeddings = 512}};
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  c.num_experts = c.num_experts_per_tok = 3;
  c.attn_layer_period = 3;
  c.attn_layer_offset = 1;
  c.mamba_d_state = 8;
  c.mamba_dt_rank = 3;
  std::vector<Case<JambaForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  return cases;
}

namespace {
using ComposedJambaForCausalLM = ComposedCausalLM<JambaForCausalLM, JambaDecoderLayer, RMSNorm>;
FK_COMPOSITION(JambaForCausalLM, ComposedJambaForCausalLM);
}  // namespace
}  // namespace fk
