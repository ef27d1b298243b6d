// Mamba 2: layers of state spaces with one decay for each head.
#include "core/error.h"
#include "models/config_mamba.h"
#include "ops/l4/mamba2_for_causal_lm.h"

namespace fk {
namespace {

Mamba2ForCausalLM::Init read_mamba2(const FamilyFields& fields) {
  Mamba2ForCausalLM::Init init;
  read_state_space(fields, {.tie_word_embeddings = false}, init);
  init.state_size = fields.integer("state_size", 1, 1024).value_or(128);
  init.n_groups = fields.integer("n_groups", 1, 1 << 12).value_or(8);
  init.num_attention_heads = init.num_key_value_heads = fields.integer("num_heads", 1, 1 << 12).value_or(128);
  init.head_dim = fields.integer("head_dim", 1, 1 << 12).value_or(64);
  init.conv_kernel = fields.integer("conv_kernel", 2, CausalConv1d::kMaxWidth).value_or(4);
  init.use_conv_bias = fields.boolean("use_conv_bias").value_or(true);
  init.use_bias = fields.boolean("use_bias").value_or(false);
  refuse_time_step_limit(fields);
  if (init.num_attention_heads * init.head_dim != init.intermediate_size)
    throw Error("{}: expand * hidden_size is {}, but num_heads * head_dim is {}; they must be equal.", fields.what(),
                init.intermediate_size, init.num_attention_heads * init.head_dim);
  if (init.num_attention_heads % init.n_groups != 0)
    throw Error("{}: num_heads {} must be a multiple of n_groups {}.", fields.what(), init.num_attention_heads,
                init.n_groups);
  return init;
}

const RegisterFamily<Mamba2ForCausalLM, read_mamba2> kMamba2({.name = "mamba2",
                                                              .model_type = "mamba2",
                                                              .packed = backbone_names()});

}  // namespace
}  // namespace fk
