#include "ops/l4/mamba2_for_causal_lm.h"

#include "core/error.h"
#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

Mamba2DecoderLayer::Init Mamba2ForCausalLM::layer(const Init& init, int64_t) {
  if (init.tp_size > 1) throw Error("Mamba blocks run on one rank; leave out --tp.");
  // The norm is one for each group, as the models were trained (mamba_ssm, vLLM). transformers norms all channels
  // together, which differs where there are several groups.
  return {.mixer = {.hidden_size = init.hidden_size,
                    .num_heads = init.num_attention_heads,
                    .head_dim = init.head_dim,
                    .state_size = init.state_size,
                    .n_groups = init.n_groups,
                    .conv_kernel = init.conv_kernel,
                    .use_conv_bias = init.use_conv_bias,
                    .use_bias = init.use_bias,
                    .norm_group_size = init.num_attention_heads * init.head_dim / init.n_groups,
                    .norm_eps = init.rms_norm_eps,
                    .dtype = init.dtype},
          .rms_norm_eps = init.rms_norm_eps};
}

std::vector<Case<Mamba2ForCausalLM>> Mamba2ForCausalLM::cases() {
  Init c{{.vocab_size = 307,
          .hidden_size = 48,
          .intermediate_size = 96,
          .num_hidden_layers = 2,
          .num_attention_heads = 6,
          .head_dim = 16,
          .max_position_embeddings = 512,
          .rms_norm_eps = 1e-5}};
  c.state_size = 16;
  c.n_groups = 2;
  std::vector<Case<Mamba2ForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  c.hidden_size = 264;
  c.num_attention_heads = 70;
  c.head_dim = 64;
  c.state_size = 32;
  for (const Workload& w : one_token_workloads())
    cases.push_back({"one token after " + std::to_string(w.sequences[0].context_len), c, w});
  return cases;
}

namespace {
using ComposedMamba2ForCausalLM = ComposedCausalLM<Mamba2ForCausalLM, Mamba2DecoderLayer, RMSNorm>;
FK_COMPOSITION(Mamba2ForCausalLM, ComposedMamba2ForCausalLM);
}  // namespace
}  // namespace fk
