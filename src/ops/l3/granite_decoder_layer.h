// GraniteDecoderLayer: as Llama, with the output of each block multiplied before it is added.
#pragma once

#include "ops/l3/decoder_layer.h"

namespace fk {

class GraniteDecoderLayer : public DecoderLayer {
 public:
  static constexpr std::string_view kName = "granite_decoder_layer";
  static constexpr std::string_view kClass = "GraniteDecoderLayer";

  struct Init : DecoderLayerInit {
    double residual_multiplier = 1;

    template <class Visitor>
    void visit(Visitor&& v) {
      DecoderLayerInit::visit(v);
      v("residual_multiplier", residual_multiplier);
    }
  };

  explicit GraniteDecoderLayer(const Init& init) : DecoderLayer(init) {}

  static std::vector<Case<GraniteDecoderLayer>> cases();
};

}  // namespace fk
