// LLaDA: a diffusion language model with Llama's layers and attention in both directions. Its config.json has the names
// of OLMo's.
#include "core/error.h"
#include "models/family.h"
#include "models/in_quotes.h"
#include "ops/l4/llada_model_lm.h"

namespace fk {
namespace {

void require_word(const FamilyFields& fields, std::string_view key, std::string_view known) {
  if (auto found = fields.string(key); found && *found != known)
    throw Error("{}: {} {} is not supported; only {} is.", fields.what(), key, in_quotes(*found), known);
}

LLaDAModelLM::Init read_llada(const FamilyFields& fields) {
  auto size = [&](std::string_view key, int64_t most) {
    auto found = fields.integer(key, 1, most);
    if (!found) throw Error("{} has no {}.", fields.what(), key);
    return *found;
  };
  LLaDAModelLM::Init init;
  init.hidden_size = size("d_model", 1 << 20);
  init.num_hidden_layers = size("n_layers", 1 << 12);
  init.num_attention_heads = size("n_heads", 1 << 12);
  init.intermediate_size = size("mlp_hidden_size", 1 << 22);
  init.vocab_size = size("vocab_size", INT32_MAX);
  // Rows behind the vocabulary are there for speed, and their logits are not left out.
  init.vocab_size = fields.integer("embedding_size", init.vocab_size, INT32_MAX).value_or(init.vocab_size);
  const bool one = fields.boolean("multi_query_attention").value_or(false);
  init.num_key_value_heads = fields.integer("n_kv_heads", 1, 1 << 12).value_or(one ? 1 : init.num_attention_heads);
  init.max_position_embeddings = fields.integer("max_sequence_length", 1, INT32_MAX).value_or(1024);
  init.rms_norm_eps = fields.real("rms_norm_eps", 1e-30, 1).value_or(1e-5);
  init.rope_theta = fields.real("rope_theta", 1, 1e12).value_or(10000);
  init.tie_word_embeddings = fields.boolean("weight_tying").value_or(true);
  init.include_bias = fields.boolean("include_bias").value_or(false);
  init.include_qkv_bias = fields.boolean("include_qkv_bias").value_or(init.include_bias);
  init.mask_token_id = fields.integer("mask_token_id", 0, init.vocab_size - 1).value_or(-1);
  init.dtype = read_dtype(fields);
  if (init.mask_token_id < 0) throw Error("{} has no mask_token_id.", fields.what());
  if (init.num_attention_heads % init.num_key_value_heads != 0)
    throw Error("{}: n_heads {} must be a multiple of n_kv_heads {}.", fields.what(), init.num_attention_heads,
                init.num_key_value_heads);
  if (init.hidden_size % (2 * init.num_attention_heads) != 0)
    throw Error("{}: d_model {} must divide by n_heads {} into heads of an even size.", fields.what(), init.hidden_size,
                init.num_attention_heads);
  init.head_dim = init.hidden_size / init.num_attention_heads;
  check_quantization(fields);
  require_word(fields, "block_type", "llama");
  require_word(fields, "activation_type", "silu");
  require_word(fields, "layer_norm_type", "rms");
  for (const char* flag : {"alibi", "attention_layer_norm", "bias_for_layer_norm", "input_emb_norm", "scale_logits"})
    refuse_flag(fields, flag);
  for (const char* flag : {"rope", "layer_norm_with_affine"})
    if (!fields.boolean(flag).value_or(true))
      throw Error("{}: {} must be true; LLaDA without it is not supported.", fields.what(), flag);
  if (fields.integer("block_group_size", 1, INT32_MAX).value_or(1) != 1)
    throw Error("{}: block_group_size must be 1.", fields.what());
  return init;
}

}  // namespace

// Not in the unnamed namespace: RegisterFamily finds it by its argument.
static ModelFacts facts_of(const LLaDAModelLM::Init& init) {
  ModelFacts facts = facts_of(static_cast<const DecoderModelInit&>(init));
  facts.mask_id = init.mask_token_id;
  return facts;
}

namespace {

const RegisterFamily<LLaDAModelLM, read_llada> kLLaDA({.name = "llada",
                                                       .model_type = "llada",
                                                       .task = Task::kDiffusionLM,
                                                       .packed = {{"model.embed_tokens.", {"model.transformer.wte."}},
                                                                  {"model.norm.", {"model.transformer.ln_f."}},
                                                                  {"lm_head.", {"model.transformer.ff_out."}},
                                                                  {"down_proj.", {"ff_out."}},
                                                                  {"qkv_proj", {"q_proj", "k_proj", "v_proj"}},
                                                                  {"gate_up_proj", {"ff_proj", "up_proj"}}}});

}  // namespace
}  // namespace fk
