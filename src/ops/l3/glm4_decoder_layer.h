// Glm4DecoderLayer: a norm before and after each block.
#pragma once

#include "ops/l3/decoder_layer.h"

namespace fk {

class Glm4DecoderLayer : public DecoderLayer {
 public:
  static constexpr std::string_view kName = "glm4_decoder_layer";
  static constexpr std::string_view kClass = "Glm4DecoderLayer";

  using DecoderLayer::DecoderLayer;

  static std::vector<Case<Glm4DecoderLayer>> cases();
};

}  // namespace fk
