// BitNetAttention: the attention block of BitNet: a norm before the output projection, and activations that are rounded
// to 8 bits before products with ternary matrices.
#pragma once

#include "ops/l2/attention_block.h"

namespace fk {

class BitNetAttention : public AttentionBlock {
 public:
  static constexpr std::string_view kName = "bitnet_attention";
  static constexpr std::string_view kClass = "BitNetAttention";

  using AttentionBlock::AttentionBlock;

  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<BitNetAttention>> cases();
};

}  // namespace fk
