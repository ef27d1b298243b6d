#include "ops/l4/siglip_vision_model.h"

#include "ops/l1/layer_norm.h"
#include "ops/register.h"

namespace fk {

SiglipVisionEmbeddings::Init SiglipVisionModel::embeddings(const Init& init) {
  return {.hidden_size = init.hidden_size,
          .num_channels = init.num_channels,
          .image_size = init.image_size,
          .patch_size = init.patch_size,
          .dtype = init.dtype};
}

SiglipEncoderLayer::Init SiglipVisionModel::layer(const Init& init) {
  return {.attention = {.hidden_size = init.hidden_size,
                        .num_attention_heads = init.num_attention_heads,
                        .dtype = init.dtype},
          .mlp = {.hidden_size = init.hidden_size,
                  .intermediate_size = init.intermediate_size,
                  .hidden_act = init.hidden_act,
                  .dtype = init.dtype},
          .layer_norm_eps = init.layer_norm_eps};
}

SiglipMultiheadAttentionPoolingHead::Init SiglipVisionModel::head(const Init& init) {
  SiglipEncoderLayer::Init same = layer(init);
  return {.attention = same.attention, .mlp = same.mlp, .layer_norm_eps = same.layer_norm_eps};
}

OutputSpecs SiglipVisionModel::outputs(const Init& init, Args given) {
  return encoder_outputs(given[1]->size(0), given[0]->size(0), init.hidden_size, init.vision_use_head, init.dtype);
}

Inputs SiglipVisionModel::inputs(const Init& init, const Workload& w) {
  Workload typed = w;
  typed.dtype = init.dtype;
  InputSpec positions{{{w.num_tokens()}, DType::kI64}, Generator::metadata(Generator::Kind::kPositions)};
  return {SiglipVisionEmbeddings::inputs(embeddings(init), typed).front(), positions, sequence_starts(w)};
}

Workload SiglipVisionModel::possible(const Init& init, const Workload& w) {
  Workload images = w;
  images.sequences =
      image_workload(w.num_sequences(), SiglipVisionEmbeddings::patches(embeddings(init)).places()).sequences;
  return images;
}

Cost SiglipVisionModel::cost(const Init& init, const Workload& w) {
  Workload typed = w;
  typed.dtype = init.dtype;
  auto size = static_cast<double>(dtype_size(init.dtype)), D = static_cast<double>(init.hidden_size);
  double stream = static_cast<double>(w.num_tokens()) * D * size;
  Cost cost = SiglipVisionEmbeddings::cost(embeddings(init), typed);  // its output is as large as the model's
  for (int64_t i = 0; i < init.num_hidden_layers; ++i)
    add_inner_layer(cost, SiglipEncoderLayer::cost(layer(init), typed), stream);
  cost.read_bytes += 2 * D * size;  // the last norm
  if (init.vision_use_head) {
    Cost pooling = SiglipMultiheadAttentionPoolingHead::cost(head(init), typed);
    cost.read_bytes += pooling.read_bytes - stream;
    cost.written_bytes += pooling.written_bytes;
    cost.matrix_flops += pooling.matrix_flops;
    cost.vector_flops += pooling.vector_flops;
  }
  return cost;
}

Tolerance SiglipVisionModel::tolerance(const Init& init, DType dtype) {
  return encoder_tolerance(init.intermediate_size, init.num_hidden_layers, dtype);
}

std::vector<Case<SiglipVisionModel>> SiglipVisionModel::cases() {
  Init c{.hidden_size = 60,
         .intermediate_size = 133,
         .num_hidden_layers = 2,
         .num_attention_heads = 5,
         .num_channels = 3,
         .image_size = 23,
         .patch_size = 5};
  Init headless = c;
  headless.vision_use_head = false;
  return {{"one image", c, image_workload(1, 16)},
          {"three images", c, image_workload(3, 16)},
          {"without a head", headless, image_workload(2, 16)}};
}

namespace {

class ComposedSiglipVisionModel final : public SiglipVisionModel {
 public:
  ComposedSiglipVisionModel(const Init& c, Builder& builder)
      : SiglipVisionModel(c),
        embedding(builder.child<SiglipVisionEmbeddings>("embeddings", embeddings(c))),
        post_layernorm(builder.child<LayerNorm>(
            "post_layernorm",
            {.hidden_size = c.hidden_size, .eps = c.layer_norm_eps, .bias = true, .dtype = c.dtype})) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i)
      layers.push_back(builder.child<SiglipEncoderLayer>("encoder.layers." + std::to_string(i), layer(c)));
    if (c.vision_use_head) pooling.emplace(builder.child<SiglipMultiheadAttentionPoolingHead>("head", head(c)));
  }

  void forward(Context& ctx, View pixel_values, View positions, View cu_seqlens, View last_hidden_state,
               OptView pooler_output) override {
    View hidden = embedding(ctx, pixel_values, positions);
    View spare = ctx.arena.make(hidden.spec());  // layers read one buffer and write the other
    for (const Op<SiglipEncoderLayer>& one : layers) {
      one.into(ctx, hidden, cu_seqlens, spare);
      std::swap(hidden, spare);
    }
    post_layernorm.into(ctx, hidden, OptView(), last_hidden_state, OptView());
    if (pooling) pooling->into(ctx, last_hidden_state, cu_seqlens, *pooler_output);
  }

 private:
  Op<SiglipVisionEmbeddings> embedding;
  std::vector<Op<SiglipEncoderLayer>> layers;
  Op<LayerNorm> post_layernorm;
  std::optional<Op<SiglipMultiheadAttentionPoolingHead>> pooling;
};

FK_COMPOSITION(SiglipVisionModel, ComposedSiglipVisionModel);

}  // namespace
}  // namespace fk
