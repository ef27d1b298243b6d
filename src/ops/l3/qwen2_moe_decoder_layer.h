// Qwen2MoeDecoderLayer: as Qwen 2, with experts on all layers or on some.
#pragma once

#include "ops/l3/sparse_decoder_layer.h"

namespace fk {

class Qwen2MoeDecoderLayer : public SparseDecoderLayer {
 public:
  static constexpr std::string_view kName = "qwen2_moe_decoder_layer";
  static constexpr std::string_view kClass = "Qwen2MoeDecoderLayer";
  static constexpr std::string_view kExperts = "mlp";

  using SparseDecoderLayer::SparseDecoderLayer;

  static std::vector<Case<Qwen2MoeDecoderLayer>> cases();
};

}  // namespace fk
