#include "ops/l3/mixtral_decoder_layer.h"

#include "ops/l2/llama_attention.h"
#include "ops/l2/mixtral_moe.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<MixtralDecoderLayer>> MixtralDecoderLayer::cases() {
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  Init c{{.attention = {.hidden_size = 56, .num_heads = 7, .num_kv_heads = 1, .head_dim = 12, .max_position = 512}},
         {.hidden_size = 56, .num_experts = 3, .top_k = 3, .intermediate_size = 60}};
  Init sliding = c;
  sliding.attention.sliding_window = 24;
  return {
      {"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer, sliding", sliding, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {
using ComposedMixtralDecoderLayer = ComposedSparseDecoderLayer<MixtralDecoderLayer, LlamaAttention, MixtralMoE>;
FK_COMPOSITION(MixtralDecoderLayer, ComposedMixtralDecoderLayer);
}  // namespace
}  // namespace fk
