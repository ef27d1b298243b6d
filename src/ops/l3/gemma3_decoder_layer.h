// Gemma3DecoderLayer: a norm before and after each block; layers slide over a window or see everything.
#pragma once

#include "ops/l3/decoder_layer.h"

namespace fk {

class Gemma3DecoderLayer : public DecoderLayer {
 public:
  static constexpr std::string_view kName = "gemma3_decoder_layer";
  static constexpr std::string_view kClass = "Gemma3DecoderLayer";

  using DecoderLayer::DecoderLayer;

  // Layers that slide turn with their own base and are never stretched.
  static AttentionBlockInit attention(const Init& init);

  static std::vector<Case<Gemma3DecoderLayer>> cases();
};

}  // namespace fk
