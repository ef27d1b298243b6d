#include "ops/l2/siglip_multihead_attention_pooling_head.h"

#include "ops/l1/attention_pool.h"
#include "ops/l1/layer_norm.h"
#include "ops/l1/linear.h"
#include "ops/l1/scale_add.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> SiglipMultiheadAttentionPoolingHead::params(const Init& init) {
  return {{"probe", {{1, 1, init.attention.hidden_size}, init.attention.dtype}}};
}

OutputSpecs SiglipMultiheadAttentionPoolingHead::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[1]->size(0) - 1, init.attention.hidden_size}, given[0]->dtype()}};
}

Inputs SiglipMultiheadAttentionPoolingHead::inputs(const Init& init, const Workload& w) {
  return SiglipAttention::inputs(init.attention, w);
}

Cost SiglipMultiheadAttentionPoolingHead::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), B = static_cast<double>(w.num_sequences()),
       D = static_cast<double>(init.attention.hidden_size);
  auto size = static_cast<double>(dtype_size(w.dtype));
  Workload images = w;
  images.sequences = {{w.num_sequences(), 0}};
  Cost cost = SiglipMLP::cost(init.mlp, images);
  // The keys need not be computed: the query times their matrix is one vector a head, which meets the patches
  // themselves; likewise the values' matrix meets the weighted sums only.
  auto H = static_cast<double>(init.attention.num_attention_heads);
  cost.read_bytes = size * (4 * D * D + 9 * D + T * D) + (cost.read_bytes - size * B * D);
  cost.matrix_flops += 2 * (2 * D * D + B * 2 * D * D) + 4 * T * H * D;
  return cost;
}

Tolerance SiglipMultiheadAttentionPoolingHead::tolerance(const Init& init, DType dtype) {
  return composed_tolerance(dtype, static_cast<double>(init.mlp.intermediate_size));
}

std::vector<Case<SiglipMultiheadAttentionPoolingHead>> SiglipMultiheadAttentionPoolingHead::cases() {
  return {{"two images",
           {.attention = {.hidden_size = 64, .num_attention_heads = 4},
            .mlp = {.hidden_size = 64, .intermediate_size = 160}},
           Workload::batch({{9, 0}, {9, 0}})},
          {"odd",
           {.attention = {.hidden_size = 42, .num_attention_heads = 3},
            .mlp = {.hidden_size = 42, .intermediate_size = 99},
            .layer_norm_eps = 1e-3},
           Workload::batch({{16, 0}, {16, 0}, {16, 0}})}};
}

namespace {

class ComposedPoolingHead final : public SiglipMultiheadAttentionPoolingHead {
 public:
  ComposedPoolingHead(const Init& c, Builder& builder)
      : SiglipMultiheadAttentionPoolingHead(c),
        in_proj(builder.child<Linear>("attention.in_proj", {.in_features = c.attention.hidden_size,
                                                            .out_features = 3 * c.attention.hidden_size,
                                                            .bias = true,
                                                            .output_sizes = {3 * c.attention.hidden_size},
                                                            .dtype = c.attention.dtype})),
        pool(builder.child<AttentionPool>("attention.pool", {.num_heads = c.attention.num_attention_heads,
                                                             .head_size = SiglipAttention::core(c.attention).head_size,
                                                             .scale = SiglipAttention::core(c.attention).scale})),
        out_proj(builder.child<Linear>("attention.out_proj", {.in_features = c.attention.hidden_size,
                                                              .out_features = c.attention.hidden_size,
                                                              .bias = true,
                                                              .dtype = c.attention.dtype})),
        layernorm(builder.child<LayerNorm>("layernorm", {.hidden_size = c.attention.hidden_size,
                                                         .eps = c.layer_norm_eps,
                                                         .bias = true,
                                                         .dtype = c.attention.dtype})),
        mlp(builder.child<SiglipMLP>("mlp", c.mlp)),
        add(builder.child<ScaleAdd>("add", {})) {}

  void forward(Context& ctx, View hidden_states, View cu_seqlens, View pooled) override {
    int64_t D = init_.attention.hidden_size;
    // The checkpoint has one matrix for queries, keys and values, so the query of every patch is computed too, and not
    // used: less than one hundredth of the model's work.
    View query = in_proj(ctx, probe().reshape({1, D})).narrow(1, 0, D), qkv = in_proj(ctx, hidden_states);
    View attended = out_proj(ctx, pool(ctx, query, qkv.narrow(1, D, D), qkv.narrow(1, 2 * D, D), cu_seqlens));
    add.into(ctx, mlp(ctx, std::get<0>(layernorm(ctx, attended))), attended, pooled);
  }

 private:
  Op<Linear> in_proj;
  Op<AttentionPool> pool;
  Op<Linear> out_proj;
  Op<LayerNorm> layernorm;
  Op<SiglipMLP> mlp;
  Op<ScaleAdd> add;
};

FK_COMPOSITION(SiglipMultiheadAttentionPoolingHead, ComposedPoolingHead);

}  // namespace
}  // namespace fk
