// RWKV 7, as flash-linear-attention stores it.
#include <algorithm>

#include "core/error.h"
#include "core/json.h"
#include "models/family.h"
#include "models/in_quotes.h"
#include "models/linear_attention_fields.h"
#include "ops/l4/rwkv7_for_causal_lm.h"

namespace fk {
namespace {

// value_dim: one number, or one for each layer.
void check_value_dim(const FamilyFields& fields, int64_t hidden_size) {
  const Json* value = fields.find("value_dim");
  if (value == nullptr || value->is_null()) return;
  auto fits = [&](const Json& one) { return one.is_number_integer() && one.get<int64_t>() == hidden_size; };
  bool all = value->is_array() ? std::all_of(value->begin(), value->end(), fits) : fits(*value);
  if (!all)
    throw Error("{}: value_dim {} is not supported; it must be hidden_size {} in every layer.", fields.what(),
                in_quotes(value->dump()), hidden_size);
}

RWKV7ForCausalLM::Init read_rwkv7(const FamilyFields& fields) {
  RWKV7ForCausalLM::Init init;
  read_fla_model(fields, init);
  const auto heads = fields.integer("num_heads", 1, 1 << 12), width = fields.integer("head_dim", 1, 1 << 12);
  init.head_dim = width ? *width : heads ? init.hidden_size / *heads : 64;
  if (init.hidden_size % init.head_dim != 0)
    throw Error("{}: hidden_size {} must be a multiple of head_dim {}.", fields.what(), init.hidden_size,
                init.head_dim);
  init.num_attention_heads = init.num_key_value_heads = init.hidden_size / init.head_dim;
  check_value_dim(fields, init.hidden_size);
  if (auto size = fields.integer("intermediate_size", 1, 1 << 22)) {
    init.intermediate_size = *size;
  } else {
    double ratio = fields.real("hidden_ratio", 0.01, 1024).value_or(4);
    init.intermediate_size = (static_cast<int64_t>(static_cast<double>(init.hidden_size) * ratio) + 31) / 32 * 32;
  }
  auto rank = [&](std::string_view key, int64_t fallback) {
    return fields.integer(key, 1, 1 << 16).value_or(fallback);
  };
  init.decay_low_rank_dim = rank("decay_low_rank_dim", 64);
  init.gate_low_rank_dim = rank("gate_low_rank_dim", 128);
  init.a_low_rank_dim = rank("a_low_rank_dim", 64);
  init.v_low_rank_dim = rank("v_low_rank_dim", 16);
  init.rms_norm_eps = fields.real("norm_eps", 1e-30, 1).value_or(1e-5);
  init.norm_bias = fields.boolean("norm_bias").value_or(true);
  init.norm_first = fields.boolean("norm_first").value_or(true);
  init.fuse_norm = fields.boolean("fuse_norm").value_or(true);
  if (auto act = fields.string("hidden_act"); act && *act != "sqrelu")
    throw Error("{}: {} with activation {} is not supported; only sqrelu is.", fields.what(), fields.architecture,
                in_quotes(*act));
  return init;
}

const RegisterFamily<RWKV7ForCausalLM, read_rwkv7> kRwkv7({.name = "rwkv7",
                                                           .model_type = "rwkv7",
                                                           .packed = {{"embed_tokens", {"embeddings"}}}});

}  // namespace
}  // namespace fk
