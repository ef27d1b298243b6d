#include "ops/l4/mamba_for_causal_lm.h"

#include "core/error.h"
#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

MambaMixerInit mamba_mixer(const MambaForCausalLMInit& init) {
  if (init.tp_size > 1) throw Error("Mamba blocks run on one rank; leave out --tp.");
  return {.hidden_size = init.hidden_size,
          .intermediate_size = init.intermediate_size,
          .state_size = init.state_size,
          .conv_kernel = init.conv_kernel,
          .time_step_rank = init.time_step_rank,
          .use_conv_bias = init.use_conv_bias,
          .use_bias = init.use_bias,
          .inner_norms = init.inner_norms,
          .inner_norm_eps = init.inner_norm_eps,
          .dtype = init.dtype};
}

MambaDecoderLayer::Init MambaForCausalLM::layer(const Init& init, int64_t) {
  return {.mixer = mamba_mixer(init), .rms_norm_eps = init.rms_norm_eps};
}

std::vector<Case<MambaForCausalLM>> MambaForCausalLM::cases() {
  Init c{{.vocab_size = 307,
          .hidden_size = 40,
          .intermediate_size = 80,
          .num_hidden_layers = 2,
          .max_position_embeddings = 512,
          .rms_norm_eps = 1e-5}};
  c.time_step_rank = 3;
  std::vector<Case<MambaForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  // For kernels of a whole token, whose blocks have eight channels or a multiple: some blocks have 40, others 32; and
  // some have 8, others none.
  Init wide = c;
  wide.hidden_size = 72;
  wide.intermediate_size = 4616;
  wide.num_hidden_layers = 3;
  wide.time_step_rank = 24;
  Init biased = wide;
  biased.hidden_size = 136;
  biased.intermediate_size = 528;
  biased.num_hidden_layers = 4;
  biased.time_step_rank = 168;
  biased.conv_kernel = 3;
  biased.use_conv_bias = false;
  biased.use_bias = true;
  biased.inner_norms = "weighted";
  cases.push_back({"one token, wide", wide, one_token_workloads()[1]});
  for (const Workload& w : one_token_workloads())
    cases.push_back({"one token after " + std::to_string(w.sequences[0].context_len), biased, w});
  return cases;
}

namespace {
using ComposedMambaForCausalLM = ComposedCausalLM<MambaForCausalLM, MambaDecoderLayer, RMSNorm>;
FK_COMPOSITION(MambaForCausalLM, ComposedMambaForCausalLM);
}  // namespace
}  // namespace fk
