// The common part of the attention blocks of all families: projection, norm (in some families), rotary embedding,
// attention, output projection.
#pragma once

#include <cmath>

#include "core/error.h"
#include "ops/l1/all_gather.h"
#include "ops/l1/rotary_emb.h"
#include "ops/l2/attention.h"
#include "ops/l2/qkv_parallel_linear.h"
#include "ops/l2/row_parallel_linear.h"
#include "ops/l2/tensor_parallel.h"
#include "ops/op.h"

namespace fk {

struct AttentionBlockInit {
  int64_t hidden_size = 0;
  int64_t num_heads = 0;  // of all ranks together, as below
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position = 8192;
  double rope_theta = 10000;
  RopeScaling rope_scaling = {};
  int64_t rotary_dim = 0;      // elements of a head that are rotated; 0: all
  bool is_neox_style = true;   // as in RotaryEmbedding
  bool bias = false;           // of queries, keys and values
  bool bias_o_proj = false;    // of the output projection
  bool qk_norm = true;         // norms of queries and keys, in operators that have them
  double rms_norm_eps = 1e-6;  // of those norms
  double scale = 0;            // of the scores; 0: 1 / sqrt(head_dim)
  int64_t sliding_window = 0;  // 0: none
  int64_t tp_size = 1;         // ranks the heads are divided over
  int64_t tp_rank = 0;         // which of them this is
  bool reduce_results = true;  // add up the ranks' outputs; else each keeps its part
  // Of its matrices, by module (ops/formats/format_map.h); empty: elements of dtype.
  std::string weight_format = {};
  DType dtype = DType::kBF16;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("hidden_size", hidden_size);
    v("num_heads", num_heads);
    v("num_kv_heads", num_kv_heads);
    v("head_dim", head_dim);
    v("max_position", max_position);
    v("rope_theta", rope_theta);
    v("rope_scaling", rope_scaling);
    v("rotary_dim", rotary_dim);
    v("is_neox_style", is_neox_style);
    v("bias", bias);
    v("bias_o_proj", bias_o_proj);
    v("qk_norm", qk_norm);
    v("rms_norm_eps", rms_norm_eps);
    v("scale", scale);
    v("sliding_window", sliding_window);
    v("tp_size", tp_size);
    v("tp_rank", tp_rank);
    v("reduce_results", reduce_results);
    v("weight_format", weight_format);
    v("dtype", dtype);
  }
};

class AttentionBlock : public Operator {
 public:
  static constexpr int kLevel = 2;
  using Init = AttentionBlockInit;

  // positions i64 [T], hidden_states [T, D] -> out [T, D].
  static constexpr std::array kArgs{in("positions"), in("hidden_states"), out("out")};

  explicit AttentionBlock(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View hidden_states, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload) { return cost_with(init, core(init), workload); }
  // The same where an operator attends in another way.
  static Cost cost_with(const Init& init, const Attention::Init& core, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static Attention::Init core(const Init& init);
  // Width of hidden_states. An operator that takes more than one hidden state hides it with its own.
  static int64_t input_size(const Init& init) { return init.hidden_size; }
  static RotaryEmbedding::Init rotary(const Init& init);
  static std::string qkv_format(const Init& init);
  static std::string output_format(const Init& init);

 protected:
  const Init init_;
};

// What the norms of queries and keys add up over, in families that have them.
enum class QkNorm : uint8_t { kNone, kEachHead, kAllHeads };

// T: the operator; Norm: the norm of queries and keys.
template <class T, class Norm, QkNorm kQkNorm>
class ComposedAttentionBlock final : public T {
 public:
  using Init = AttentionBlockInit;

  ComposedAttentionBlock(const Init& init, Builder& builder)
      : T(init),
        qkv_proj(builder.child<QKVParallelLinear>("qkv_proj", {.hidden_size = T::input_size(init),
                                                               .head_size = init.head_dim,
                                                               .total_num_heads = init.num_heads,
                                                               .total_num_kv_heads = init.num_kv_heads,
                                                               .bias = init.bias,
                                                               .tp_size = init.tp_size,
                                                               .tp_rank = init.tp_rank,
                                                               .weight_format = AttentionBlock::qkv_format(init),
                                                               .dtype = init.dtype})),
        o_proj(builder.child<RowParallelLinear>("o_proj", {.input_size = init.num_heads * init.head_dim,
                                                           .output_size = init.hidden_size,
                                                           .bias = init.bias_o_proj,
                                                           .reduce_results = init.reduce_results,
                                                           .tp_size = init.tp_size,
                                                           .tp_rank = init.tp_rank,
                                                           .weight_format = AttentionBlock::output_format(init),
                                                           .dtype = init.dtype})),
        rotary_emb(builder.child<RotaryEmbedding>("rotary_emb", T::rotary(init))),
        attn(builder.child<Attention>("attn", T::core(init))),
        heads_(rank_share(init.num_heads, init.tp_size, "attention heads")),
        kv_heads_(rank_kv_heads(init.num_kv_heads, init.tp_size)) {
    if (kQkNorm != QkNorm::kNone && init.qk_norm) {
      bool all = kQkNorm == QkNorm::kAllHeads;
      if (all && init.tp_size > 1) {
        if (!init.reduce_results)
          throw Error(
              "{} norms queries and keys over the heads of all {} ranks, which one rank alone cannot; use "
              "tp_size 1.",
              T::kClass, init.tp_size);
        if (kv_heads_ * init.tp_size != init.num_kv_heads)
          throw Error(
              "{} norms keys over all heads, so {} ranks cannot share {} of them; use a tp_size that divides them.",
              T::kClass, init.tp_size, init.num_kv_heads);
        gather_heads.emplace(
            builder.child<AllGather>("gather_heads", {.world_size = init.tp_size, .rank = init.tp_rank}));
      }
      auto norm_of = [&](int64_t heads) {
        typename Norm::Init norm{
            .hidden_size = (all ? heads : 1) * init.head_dim, .eps = init.rms_norm_eps, .dtype = init.dtype};
        if constexpr (requires { norm.num_heads; }) norm.num_heads = heads;  // each head has its own weight
        return norm;
      };
      q_norm.emplace(builder.child<Norm>("q_norm", norm_of(all ? init.num_heads : heads_)));
      k_norm.emplace(builder.child<Norm>("k_norm", norm_of(all ? init.num_kv_heads : kv_heads_)));
    }
  }

  void forward(Context& ctx, View positions, View hidden_states, View out) override {
    const Init& init = this->init_;
    int64_t q_size = heads_ * init.head_dim, kv_size = kv_heads_ * init.head_dim;
    View qkv = std::get<0>(qkv_proj(ctx, hidden_states));
    View q = qkv.narrow(1, 0, q_size);
    View k = qkv.narrow(1, q_size, kv_size);
    View v = qkv.narrow(1, q_size + kv_size, kv_size);
    if (q_norm && kQkNorm == QkNorm::kAllHeads) {
      q = normed_over_ranks(ctx, *q_norm, q);
      k = normed_over_ranks(ctx, *k_norm, k);
    } else if (q_norm) {
      q = std::get<0>((*q_norm)(ctx, q.split_last(heads_, init.head_dim))).flatten_last();
      k = std::get<0>((*k_norm)(ctx, k.split_last(kv_heads_, init.head_dim))).flatten_last();
    }
    rotary_emb(ctx, positions, q, k);
    o_proj.into(ctx, attn(ctx, q, k, v), out, OptView());
  }

 private:
  // This rank's heads, normed over those of all ranks.
  View normed_over_ranks(Context& ctx, const Op<Norm>& norm, View heads) {
    if (!gather_heads) return std::get<0>(norm(ctx, heads));
    View normed = std::get<0>(norm(ctx, (*gather_heads)(ctx, heads)));
    return normed.narrow(1, this->init_.tp_rank * heads.size(1), heads.size(1));
  }

  Op<QKVParallelLinear> qkv_proj;
  Op<RowParallelLinear> o_proj;
  Op<RotaryEmbedding> rotary_emb;
  Op<Attention> attn;
  std::optional<Op<Norm>> q_norm;
  std::optional<Op<Norm>> k_norm;
  std::optional<Op<AllGather>> gather_heads;
  int64_t heads_, kv_heads_;  // of this rank
};

}  // namespace fk
