// Qwen3MoeDecoderLayer: as Qwen 3, with experts on all layers or on some.
#pragma once

#include "ops/l3/sparse_decoder_layer.h"

namespace fk {

class Qwen3MoeDecoderLayer : public SparseDecoderLayer {
 public:
  static constexpr std::string_view kName = "qwen3_moe_decoder_layer";
  static constexpr std::string_view kClass = "Qwen3MoeDecoderLayer";
  static constexpr std::string_view kExperts = "mlp";

  using SparseDecoderLayer::SparseDecoderLayer;

  static std::vector<Case<Qwen3MoeDecoderLayer>> cases();
};

}  // namespace fk
