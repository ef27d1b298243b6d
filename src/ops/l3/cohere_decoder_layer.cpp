#include "ops/l3/cohere_decoder_layer.h"

#include "ops/l1/layer_norm.h"
#include "ops/l1/scale_add.h"
#include "ops/l2/cohere_attention.h"
#include "ops/l2/llama_attention.h"
#include "ops/l2/llama_mlp.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<CohereDecoderLayer>> CohereDecoderLayer::cases() {
  Init c{{.attention = {.hidden_size = 44, .num_heads = 4, .num_kv_heads = 2, .head_dim = 12, .is_neox_style = false},
          .mlp = {.hidden_size = 44, .intermediate_size = 115}},
         false};
  Init normed = c;
  normed.use_qk_norm = true;
  return {
      {"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer, normed heads", normed, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {

class ComposedCohereDecoderLayer final : public CohereDecoderLayer {
 public:
  ComposedCohereDecoderLayer(const Init& init, Builder& builder)
      : CohereDecoderLayer(init),
        mlp(builder.child<LlamaMLP>("mlp", init.mlp)),
        input_layernorm(builder.child<LayerNorm>("input_layernorm", norm<LayerNorm>(init))),
        add(builder.child<ScaleAdd>("add", {})) {
    if (init.use_qk_norm)
      normed_attn.emplace(builder.child<CohereAttention>("self_attn", init.attention));
    else
      plain_attn.emplace(builder.child<LlamaAttention>("self_attn", init.attention));
  }

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    auto [normed, sum] = input_layernorm(ctx, hidden_states, residual);
    View attended = normed_attn ? (*normed_attn)(ctx, positions, normed) : (*plain_attn)(ctx, positions, normed);
    add.into(ctx, attended, sum ? *sum : hidden_states, residual_out);
    mlp.into(ctx, normed, out);
  }

 private:
  // One of the two.
  std::optional<Op<LlamaAttention>> plain_attn;
  std::optional<Op<CohereAttention>> normed_attn;
  Op<LlamaMLP> mlp;
  Op<LayerNorm> input_layernorm;
  Op<ScaleAdd> add;
};

FK_COMPOSITION(CohereDecoderLayer, ComposedCohereDecoderLayer);

}  // namespace
}  // namespace fk
