// Gemma3DecoderLayer: a norm before and after each block; attention is global or has a sliding window, by layer.
#pragma once

#include "ops/l3/decoder_layer.h"

namespace fk {

class Gemma3DecoderLayer : public DecoderLayer {
 public:
  static constexpr std::string_view kName = "gemma3_decoder_layer";
  static constexpr std::string_view kClass = "Gemma3DecoderLayer";

  using DecoderLayer::DecoderLayer;

  static std::vector<Case<Gemma3DecoderLayer>> cases();
};

}  // namespace fk
