// DeepseekV2DecoderLayer: the layers of DeepSeek V3, with latent attention, and experts on all but the first ones.
#pragma once

#include "ops/l3/mla_decoder_layer.h"

namespace fk {

class DeepseekV2DecoderLayer : public MLADecoderLayer<DeepseekV2MLAAttention> {
 public:
  static constexpr std::string_view kName = "deepseek_v2_decoder_layer";
  static constexpr std::string_view kClass = "DeepseekV2DecoderLayer";

  using MLADecoderLayer::MLADecoderLayer;

  static std::vector<Case<DeepseekV2DecoderLayer>> cases();
};

}  // namespace fk
