// Mamba2DecoderLayer: a norm and a Mamba 2 block.
#pragma once

#include "ops/l2/mamba2_mixer.h"
#include "ops/l3/one_block_layer.h"

namespace fk {

class Mamba2DecoderLayer : public OneBlockLayer<Mamba2Mixer> {
 public:
  static constexpr std::string_view kName = "mamba2_decoder_layer";
  static constexpr std::string_view kClass = "Mamba2DecoderLayer";
  using OneBlockLayer::OneBlockLayer;

  static std::vector<Case<Mamba2DecoderLayer>> cases();
};

}  // namespace fk
