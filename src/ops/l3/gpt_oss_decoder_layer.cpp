#include "ops/l3/gpt_oss_decoder_layer.h"

#include "ops/l2/gpt_oss_attention.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<GptOssDecoderLayer>> GptOssDecoderLayer::cases() {
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  Init c{{.attention = {.hidden_size = 44,
                        .num_heads = 6,
                        .num_kv_heads = 3,
                        .head_dim = 20,
                        .max_position = 512,
                        .bias = true,
                        .bias_o_proj = true}},
         {{.hidden_size = 44, .num_experts = 3, .top_k = 3, .intermediate_size = 28}}};
  Init sliding = c;
  sliding.attention.sliding_window = 7;
  return {
      {"first layer, sliding", sliding, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer", c, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {
using ComposedGptOssDecoderLayer = ComposedSparseDecoderLayer<GptOssDecoderLayer, GptOssAttention, GptOssMLP>;
FK_COMPOSITION(GptOssDecoderLayer, ComposedGptOssDecoderLayer);
}  // namespace
}  // namespace fk
