#include "ops/l3/qwen3_decoder_layer.h"

#include "ops/l2/qwen3_attention.h"
#include "ops/l3/pre_norm_decoder_layer.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Qwen3DecoderLayer>> Qwen3DecoderLayer::cases() {
  Init c{.attention = {.hidden_size = 72, .num_heads = 6, .num_kv_heads = 3, .head_dim = 24, .max_position = 512},
         .mlp = {.hidden_size = 72, .intermediate_size = 200}};
  Init sliding = c;
  sliding.attention.sliding_window = 24;
  return {
      {"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer, sliding", sliding, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {
using ComposedQwen3DecoderLayer = PreNormDecoderLayer<Qwen3DecoderLayer, Qwen3Attention>;
FK_COMPOSITION(Qwen3DecoderLayer, ComposedQwen3DecoderLayer);
}  // namespace
}  // namespace fk
