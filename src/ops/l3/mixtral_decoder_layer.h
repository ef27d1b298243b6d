// MixtralDecoderLayer: as Llama, with experts.
#pragma once

#include "ops/l3/sparse_decoder_layer.h"

namespace fk {

class MixtralDecoderLayer : public SparseDecoderLayer {
 public:
  static constexpr std::string_view kName = "mixtral_decoder_layer";
  static constexpr std::string_view kClass = "MixtralDecoderLayer";
  static constexpr std::string_view kExperts = "block_sparse_moe";

  using SparseDecoderLayer::SparseDecoderLayer;

  static std::vector<Case<MixtralDecoderLayer>> cases();
};

}  // namespace fk
