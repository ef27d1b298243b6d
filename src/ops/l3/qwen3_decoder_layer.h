// Qwen3DecoderLayer: as Llama, with normed queries and keys.
#pragma once

#include "ops/l3/decoder_layer.h"

namespace fk {

class Qwen3DecoderLayer : public DecoderLayer {
 public:
  static constexpr std::string_view kName = "qwen3_decoder_layer";
  static constexpr std::string_view kClass = "Qwen3DecoderLayer";

  using DecoderLayer::DecoderLayer;

  static std::vector<Case<Qwen3DecoderLayer>> cases();
};

}  // namespace fk
