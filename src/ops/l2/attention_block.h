// The common part of the attention blocks of all families: projection, norm (in some families), rotary embedding,
// attention, output projection.
#pragma once

#include <cmath>

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
  bool bias = false;           // of all four projections
  double rms_norm_eps = 1e-6;  // of the query and key norms
  double scale = 0;            // of the scores; 0: 1 / sqrt(head_dim)
  int64_t sliding_window = 0;  // 0: none
  int64_t tp_size = 1;         // ranks the heads are divided over; this is the first of them
  bool reduce_results = true;  // add up the ranks' outputs; else each keeps its part
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
    v("bias", bias);
    v("rms_norm_eps", rms_norm_eps);
    v("scale", scale);
    v("sliding_window", sliding_window);
    v("tp_size", tp_size);
    v("reduce_results", reduce_results);
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
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static Attention::Init core(const Init& init);

 protected:
  const Init init_;
};

// T: the operator; Norm: the norm of each head of queries and keys, in families that have one.
template <class T, class Norm, bool kNormed>
class ComposedAttentionBlock final : public T {
 public:
  using Init = AttentionBlockInit;

  ComposedAttentionBlock(const Init& init, Builder& builder)
      : T(init),
        qkv_proj(builder.child<QKVParallelLinear>("qkv_proj", {.hidden_size = init.hidden_size,
                                                               .head_size = init.head_dim,
                                                               .total_num_heads = init.num_heads,
                                                               .total_num_kv_heads = init.num_kv_heads,
                                                               .bias = init.bias,
                                                               .tp_size = init.tp_size,
                                                               .dtype = init.dtype})),
        o_proj(builder.child<RowParallelLinear>("o_proj", {.input_size = init.num_heads * init.head_dim,
                                                           .output_size = init.hidden_size,
                                                           .bias = init.bias,
                                                           .reduce_results = init.reduce_results,
                                                           .tp_size = init.tp_size,
                                                           .dtype = init.dtype})),
        rotary_emb(builder.child<RotaryEmbedding>("rotary_emb", {.head_size = init.head_dim,
                                                                 .rotary_dim = init.head_dim,
                                                                 .max_position_embeddings = init.max_position,
                                                                 .base = init.rope_theta,
                                                                 .rope_scaling = init.rope_scaling,
                                                                 .dtype = init.dtype})),
        attn(builder.child<Attention>("attn", AttentionBlock::core(init))),
        heads_(rank_share(init.num_heads, init.tp_size, "attention heads")),
        kv_heads_(rank_kv_heads(init.num_kv_heads, init.tp_size)) {
    if constexpr (kNormed) {
      q_norm.emplace(
          builder.child<Norm>("q_norm", {.hidden_size = init.head_dim, .eps = init.rms_norm_eps, .dtype = init.dtype}));
      k_norm.emplace(
          builder.child<Norm>("k_norm", {.hidden_size = init.head_dim, .eps = init.rms_norm_eps, .dtype = init.dtype}));
    }
  }

  void forward(Context& ctx, View positions, View hidden_states, View out) override {
    const Init& init = this->init_;
    int64_t q_size = heads_ * init.head_dim, kv_size = kv_heads_ * init.head_dim;
    View qkv = std::get<0>(qkv_proj(ctx, hidden_states));
    View q = qkv.narrow(1, 0, q_size);
    View k = qkv.narrow(1, q_size, kv_size);
    View v = qkv.narrow(1, q_size + kv_size, kv_size);
    if constexpr (kNormed) {
      q = std::get<0>((*q_norm)(ctx, q.split_last(heads_, init.head_dim))).flatten_last();
      k = std::get<0>((*k_norm)(ctx, k.split_last(kv_heads_, init.head_dim))).flatten_last();
    }
    rotary_emb(ctx, positions, q, k);
    o_proj.into(ctx, attn(ctx, q, k, v), out, OptView());
  }

 private:
  Op<QKVParallelLinear> qkv_proj;
  Op<RowParallelLinear> o_proj;
  Op<RotaryEmbedding> rotary_emb;
  Op<Attention> attn;
  std::optional<Op<Norm>> q_norm;
  std::optional<Op<Norm>> k_norm;
  int64_t heads_, kv_heads_;  // of this rank
};

}  // namespace fk
