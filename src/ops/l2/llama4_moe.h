// Llama4MoE: the experts of Llama 4: one for each token, whose input is multiplied by the sigmoid of its logit, and one
// that all tokens use.
#pragma once

#include "ops/l2/sparse_moe_block.h"

namespace fk {

class Llama4MoE : public Operator {
 public:
  static constexpr std::string_view kName = "llama4_moe";
  static constexpr std::string_view kClass = "Llama4MoE";
  static constexpr int kLevel = 2;
  using Init = SparseMoeBlockInit;

  // x [T, D] -> out [T, D].
  static constexpr std::array kArgs = SparseMoeBlock::kArgs;

  explicit Llama4MoE(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init&, Args given) { return {given[0]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& w) { return SparseMoeBlock::inputs(init, w); }
  static Cost cost(const Init& init, const Workload& w);
  static Tolerance tolerance(const Init& init, DType dtype) { return SparseMoeBlock::tolerance(init, dtype); }
  static std::vector<Case<Llama4MoE>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
