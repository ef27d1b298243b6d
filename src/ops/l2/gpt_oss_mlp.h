// GptOssMLP: the experts of gpt-oss: a router with a bias, weights that add up to one, biases and a limited activation
// in the experts, whose matrices may be in MXFP4.
#pragma once

#include "ops/l2/sparse_moe_block.h"

namespace fk {

struct GptOssMLPInit : SparseMoeBlockInit {
  double swiglu_limit = 7;
  std::string experts_format = {};  // of the matrices of the experts (ops/formats); empty: elements of dtype

  template <class Visitor>
  void visit(Visitor&& v) {
    SparseMoeBlockInit::visit(v);
    v("swiglu_limit", swiglu_limit);
    v("experts_format", experts_format);
  }
};

class GptOssMLP : public Operator {
 public:
  static constexpr std::string_view kName = "gpt_oss_mlp";
  static constexpr std::string_view kClass = "GptOssMLP";
  static constexpr int kLevel = 2;
  using Init = GptOssMLPInit;

  // x [T, D] -> out [T, D].
  static constexpr std::array kArgs = SparseMoeBlock::kArgs;

  explicit GptOssMLP(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init&, Args given) { return {given[0]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& w) { return SparseMoeBlock::inputs(init, w); }
  static Cost cost(const Init& init, const Workload& w);
  static Tolerance tolerance(const Init& init, DType dtype) { return SparseMoeBlock::tolerance(init, dtype); }
  static std::vector<Case<GptOssMLP>> cases();

  static GateLinear::Init router(const Init& init);
  static FusedExperts::Init routed(const Init& init);

 protected:
  const Init init_;
};

}  // namespace fk
