// MambaDecoderLayer: a norm and a Mamba block.
#pragma once

#include "ops/l2/mamba_mixer.h"
#include "ops/l3/one_block_layer.h"

namespace fk {

class MambaDecoderLayer : public OneBlockLayer<MambaMixer> {
 public:
  static constexpr std::string_view kName = "mamba_decoder_layer";
  static constexpr std::string_view kClass = "MambaDecoderLayer";
  using OneBlockLayer::OneBlockLayer;

  static std::vector<Case<MambaDecoderLayer>> cases();
};

}  // namespace fk
