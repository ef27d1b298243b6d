#include "ops/l3/llama_decoder_layer.h"

#include "ops/l2/llama_attention.h"
#include "ops/l3/pre_norm_decoder_layer.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<LlamaDecoderLayer>> LlamaDecoderLayer::cases() {
  Init c{.attention = {.hidden_size = 64, .num_heads = 4, .num_kv_heads = 2, .head_dim = 16, .max_position = 512},
         .mlp = {.hidden_size = 64, .intermediate_size = 176}};
  Init sliding = c;
  sliding.attention.sliding_window = 24;
  return {
      {"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer, sliding", sliding, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {
using ComposedLlamaDecoderLayer = PreNormDecoderLayer<LlamaDecoderLayer, LlamaAttention>;
FK_COMPOSITION(LlamaDecoderLayer, ComposedLlamaDecoderLayer);
}  // namespace
}  // namespace fk
