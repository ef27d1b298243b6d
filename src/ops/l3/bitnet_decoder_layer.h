// BitNetDecoderLayer: norm, attention, norm, feed-forward as in Llama, with BitNet's blocks.
#pragma once

#include "ops/l3/decoder_layer.h"

namespace fk {

class BitNetDecoderLayer : public DecoderLayer {
 public:
  static constexpr std::string_view kName = "bitnet_decoder_layer";
  static constexpr std::string_view kClass = "BitNetDecoderLayer";

  using DecoderLayer::DecoderLayer;

  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<BitNetDecoderLayer>> cases();
};

}  // namespace fk
