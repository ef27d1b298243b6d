// LlamaDecoderLayer: norm, attention, norm, feed-forward; of Llama and Mistral.
#pragma once

#include "ops/l3/decoder_layer.h"

namespace fk {

class LlamaDecoderLayer : public DecoderLayer {
 public:
  static constexpr std::string_view kName = "llama_decoder_layer";
  static constexpr std::string_view kClass = "LlamaDecoderLayer";

  using DecoderLayer::DecoderLayer;

  static std::vector<Case<LlamaDecoderLayer>> cases();
};

}  // namespace fk
