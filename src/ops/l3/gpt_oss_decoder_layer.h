// GptOssDecoderLayer: a layer of gpt-oss: attention with sinks, and experts.
#pragma once

#include "ops/l2/gpt_oss_mlp.h"
#include "ops/l3/sparse_decoder_layer.h"

namespace fk {

class GptOssDecoderLayer : public DecoderLayerWith<GptOssMLP> {
 public:
  static constexpr std::string_view kName = "gpt_oss_decoder_layer";
  static constexpr std::string_view kClass = "GptOssDecoderLayer";
  static constexpr std::string_view kExperts = "mlp";

  using DecoderLayerWith::DecoderLayerWith;

  static std::vector<Case<GptOssDecoderLayer>> cases();
};

}  // namespace fk
