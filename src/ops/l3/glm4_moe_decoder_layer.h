// Glm4MoeDecoderLayer: the layers of GLM 4.5, with experts on all but the first ones.
#pragma once

#include "ops/l2/grouped_moe_block.h"
#include "ops/l3/sparse_decoder_layer.h"

namespace fk {

class Glm4MoeDecoderLayer : public DecoderLayerWith<GroupedMoeBlock> {
 public:
  static constexpr std::string_view kName = "glm4_moe_decoder_layer";
  static constexpr std::string_view kClass = "Glm4MoeDecoderLayer";
  static constexpr std::string_view kExperts = "mlp";

  using DecoderLayerWith::DecoderLayerWith;

  static std::vector<Case<Glm4MoeDecoderLayer>> cases();
};

}  // namespace fk
