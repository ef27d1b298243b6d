// Olmo2DecoderLayer: the output of each block is normed before it is added; nothing is normed before a block.
#pragma once

#include "ops/l3/decoder_layer.h"

namespace fk {

class Olmo2DecoderLayer : public DecoderLayer {
 public:
  static constexpr std::string_view kName = "olmo2_decoder_layer";
  static constexpr std::string_view kClass = "Olmo2DecoderLayer";

  using DecoderLayer::DecoderLayer;

  static std::vector<Case<Olmo2DecoderLayer>> cases();
};

}  // namespace fk
