// The composition of the blocks of gated linear attention and retention.
#pragma once

#include "core/error.h"
#include "ops/l1/rms_norm.h"
#include "ops/l1/rms_norm_gated.h"
#include "ops/l2/batched_recurrence.h"
#include "ops/l2/linear_attention_block.h"
#include "ops/l2/merged_column_parallel_linear.h"
#include "ops/l2/row_parallel_linear.h"
#include "ops/l2/tensor_parallel.h"

namespace fk {

// T: the operator. Derived: its composition, with `View mix(ctx, positions, x, q, k, v)`, which returns [T, H, V];
// q, k and v are [T, n].
template <class T>
class ComposedLinearAttention : public T {
 public:
  using Init = LinearAttentionInit;

  ComposedLinearAttention(const Init& init, Builder& builder)
      : T(init),
        rank_(T::recurrence(init)),
        projections_(builder.child<MergedColumnParallelLinear>(init.use_output_gate ? "qkvg_proj" : "qkv_proj",
                                                               projections(init))),
        o_proj_(builder.child<RowParallelLinear>("o_proj", {.input_size = init.num_heads * init.head_v_dim,
                                                            .output_size = init.hidden_size,
                                                            .reduce_results = init.reduce_results,
                                                            .tp_size = init.tp_size,
                                                            .tp_rank = init.tp_rank,
                                                            .dtype = init.dtype})) {
    if (!init.weight_format.empty()) throw Error("{} has no quantised weights; use elements of a dtype.", T::kClass);
    if (init.use_output_gate)
      gated_norm_.emplace(builder.child<RMSNormGated>(
          init.fuse_norm ? "g_norm_swish_gate" : "g_norm",
          {.hidden_size = init.head_v_dim, .eps = init.norm_eps, .norm_before_gate = true, .dtype = init.dtype}));
    else
      norm_.emplace(builder.child<RMSNorm>(
          "g_norm", {.hidden_size = init.head_v_dim, .eps = init.norm_eps, .dtype = init.dtype}));
  }

  void forward(Context& ctx, View positions, View hidden_states, View out) override {
    const int64_t q_size = rank_.num_heads * rank_.head_k_dim, k_size = rank_.k_heads() * rank_.head_k_dim,
                  v_size = rank_.v_heads() * rank_.head_v_dim, o_size = rank_.num_heads * rank_.head_v_dim;
    View all = std::get<0>(projections_(ctx, hidden_states));
    View q = all.narrow(1, 0, q_size), k = all.narrow(1, q_size, k_size), v = all.narrow(1, q_size + k_size, v_size);
    View mixed = mix(ctx, positions, hidden_states, q, k, v);
    View normed;
    if (gated_norm_)
      normed = (*gated_norm_)(
          ctx, mixed, all.narrow(1, q_size + k_size + v_size, o_size).split_last(rank_.num_heads, rank_.head_v_dim));
    else
      normed = std::get<0>((*norm_)(ctx, mixed, OptView()));
    o_proj_.into(ctx, normed.flatten_last(), out, OptView());
  }

 protected:
  virtual View mix(Context& ctx, const View& positions, const View& x, const View& q, const View& k, const View& v) = 0;

  const LinearRecurrenceInit rank_;

 private:
  static MergedColumnParallelLinear::Init projections(const Init& init) {
    MergedColumnParallelLinear::Init merged{
        .input_size = init.hidden_size,
        .output_sizes = {init.num_heads * init.head_k_dim, init.num_kv_heads * init.head_k_dim,
                         init.num_kv_heads * init.head_v_dim},
        .tp_size = init.tp_size,
        .tp_rank = init.tp_rank,
        .dtype = init.dtype};
    if (init.use_output_gate) merged.output_sizes.push_back(init.num_heads * init.head_v_dim);
    return merged;
  }

  Op<MergedColumnParallelLinear> projections_;
  Op<RowParallelLinear> o_proj_;
  std::optional<Op<RMSNormGated>> gated_norm_;
  std::optional<Op<RMSNorm>> norm_;
};

}  // namespace fk
