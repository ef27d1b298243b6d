#include "ops/l3/llama_decoder_layer.h"

#include "ops/l2/llama_attention.h"
#include "ops/l3/pre_norm_decoder_layer.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<LlamaDecoderLayer>> LlamaDecoderLayer::cases() {
  CausalLMConfig c{.hidden_size = 64,
                   .intermediate_size = 176,
                   .num_hidden_layers = 1,
                   .num_attention_heads = 4,
                   .num_key_value_heads = 2,
                   .head_dim = 16,
                   .max_position_embeddings = 512};
  return {
      {"first layer", {c, 0}, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer, sliding", {c, 24}, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {
using ComposedLlamaDecoderLayer = PreNormDecoderLayer<LlamaDecoderLayer, LlamaAttention>;
FK_COMPOSITION(LlamaDecoderLayer, ComposedLlamaDecoderLayer);
}  // namespace
}  // namespace fk
