// BitNetMLP: the gated feed-forward block of BitNet: squared ReLU, a norm before the last product, and activations that
// are rounded to 8 bits before products with ternary matrices.
#pragma once

#include "ops/l2/mlp_block.h"

namespace fk {

struct BitNetMLPInit : MlpBlockInit {
  double rms_norm_eps = 1e-5;

  template <class Visitor>
  void visit(Visitor&& v) {
    MlpBlockInit::visit(v);
    v("rms_norm_eps", rms_norm_eps);
  }
};

class BitNetMLP : public MlpBlock {
 public:
  static constexpr std::string_view kName = "bitnet_mlp";
  static constexpr std::string_view kClass = "BitNetMLP";
  using Init = BitNetMLPInit;

  explicit BitNetMLP(const Init& init) : MlpBlock(init) {}

  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<BitNetMLP>> cases();
};

}  // namespace fk
