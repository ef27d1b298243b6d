// DeepseekV32DecoderLayer: the layers of DeepSeek V3.2 and GLM 5: those of V3 with sparse latent attention.
#pragma once

#include "ops/l2/deepseek_v32_mla_attention.h"
#include "ops/l3/mla_decoder_layer.h"

namespace fk {

class DeepseekV32DecoderLayer : public MLADecoderLayer<DeepseekV32MLAAttention> {
 public:
  static constexpr std::string_view kName = "deepseek_v32_decoder_layer";
  static constexpr std::string_view kClass = "DeepseekV32DecoderLayer";

  using MLADecoderLayer::MLADecoderLayer;

  static std::vector<Case<DeepseekV32DecoderLayer>> cases();
};

}  // namespace fk
