#include "ops/l3/qwen3_decoder_layer.h"

#include "ops/l2/qwen3_attention.h"
#include "ops/l3/pre_norm_decoder_layer.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Qwen3DecoderLayer>> Qwen3DecoderLayer::cases() {
  CausalLMConfig c{.hidden_size = 72,
                   .intermediate_size = 200,
                   .num_hidden_layers = 1,
                   .num_attention_heads = 6,
                   .num_key_value_heads = 3,
                   .head_dim = 24,
                   .max_position_embeddings = 512};
  return {
      {"first layer", {c, 0}, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer, sliding", {c, 24}, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {
using ComposedQwen3DecoderLayer = PreNormDecoderLayer<Qwen3DecoderLayer, Qwen3Attention>;
FK_COMPOSITION(Qwen3DecoderLayer, ComposedQwen3DecoderLayer);
}  // namespace
}  // namespace fk
