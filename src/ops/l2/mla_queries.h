// What stands before latent attention in all blocks that have it: queries, latents and their rotated parts.
#pragma once

#include <cmath>

#include "ops/formats/format_map.h"
#include "ops/formats/weight_format.h"
#include "ops/l2/column_parallel_linear.h"
#include "ops/l2/deepseek_v2_mla_attention.h"
#include "ops/l2/replicated_linear.h"
#include "ops/l2/row_parallel_linear.h"

namespace fk {

inline RowParallelLinear::Init mla_output(const MLABlockInit& init) {
  return {.input_size = init.num_heads * init.v_head_dim,
          .output_size = init.hidden_size,
          .bias = init.bias,
          .reduce_results = init.reduce_results,
          .tp_size = init.tp_size,
          .tp_rank = init.tp_rank,
          .weight_format = format_of_module(init.weight_format, "o_proj"),
          .dtype = init.dtype};
}

class MLAQueries {
 public:
  MLAQueries(const MLABlockInit& init, Builder& builder)
      : init_(init),
        kv_a_proj_with_mqa(builder.child<ReplicatedLinear>(
            "kv_a_proj_with_mqa", {.input_size = init.hidden_size,
                                   .output_size = init.kv_lora_rank + init.qk_rope_head_dim,
                                   .bias = init.bias,
                                   .weight_format = format_of_module(init.weight_format, "kv_a_proj_with_mqa"),
                                   .dtype = init.dtype})),
        kv_a_layernorm(builder.child<RMSNorm>(
            "kv_a_layernorm", {.hidden_size = init.kv_lora_rank, .eps = init.rms_norm_eps, .dtype = init.dtype})) {
    if (init.rotary) {
      rotary_q.emplace(builder.child<RotaryEmbedding>("rotary_emb", DeepseekV2MLAAttention::rotary_q(init)));
      rotary_k.emplace(builder.child<RotaryEmbedding>("rotary_emb", DeepseekV2MLAAttention::rotary_k(init)));
    }
    auto heads = [&](std::string_view name, int64_t from) {
      return builder.child<ColumnParallelLinear>(name, {.input_size = from,
                                                        .output_size = init.num_heads * init.qk_head_dim(),
                                                        .tp_size = init.tp_size,
                                                        .tp_rank = init.tp_rank,
                                                        .weight_format = format_of_module(init.weight_format, name),
                                                        .dtype = init.dtype});
    };
    if (init.q_lora_rank > 0) {
      q_a_proj.emplace(builder.child<ReplicatedLinear>(
          "q_a_proj", {.input_size = init.hidden_size,
                       .output_size = init.q_lora_rank,
                       .bias = init.bias,
                       .weight_format = format_of_module(init.weight_format, "q_a_proj"),
                       .dtype = init.dtype}));
      q_a_layernorm.emplace(builder.child<RMSNorm>(
          "q_a_layernorm", {.hidden_size = init.q_lora_rank, .eps = init.rms_norm_eps, .dtype = init.dtype}));
      q_proj.emplace(heads("q_b_proj", init.q_lora_rank));
    } else {
      q_proj.emplace(heads("q_proj", init.hidden_size));
    }
  }

  struct Queries {
    View q;           // [T, H * (nope + rope)], rotated where the block does
    OptView latents;  // [T, q_lora_rank], normed, where queries have some
  };
  Queries project(Context& ctx, const View& positions, const View& hidden_states) const {
    OptView down;
    if (q_a_proj) down = std::get<0>((*q_a_layernorm)(ctx, std::get<0>((*q_a_proj)(ctx, hidden_states))));
    View q = std::get<0>((*q_proj)(ctx, down ? *down : hidden_states));
    if (rotary_q) (*rotary_q)(ctx, positions, q);
    return {q, down};
  }

  // kv_c [T, L], normed, and k_pe [T, rope], rotated.
  std::pair<View, View> latents(Context& ctx, const View& positions, const View& hidden_states) const {
    View both = std::get<0>(kv_a_proj_with_mqa(ctx, hidden_states));
    View k_pe = both.narrow(1, init_.kv_lora_rank, init_.qk_rope_head_dim);
    View kv_c = std::get<0>(kv_a_layernorm(ctx, both.narrow(1, 0, init_.kv_lora_rank)));
    if (rotary_k) (*rotary_k)(ctx, positions, k_pe);
    return {kv_c, k_pe};
  }

 private:
  const MLABlockInit init_;
  std::optional<Op<ReplicatedLinear>> q_a_proj;
  std::optional<Op<RMSNorm>> q_a_layernorm;
  std::optional<Op<ColumnParallelLinear>> q_proj;
  Op<ReplicatedLinear> kv_a_proj_with_mqa;
  Op<RMSNorm> kv_a_layernorm;
  std::optional<Op<RotaryEmbedding>> rotary_q, rotary_k;
};

}  // namespace fk
