// Gemma4Attention: the attention block of Gemma 4: norms of queries, keys and values, the last without a weight. Global
// layers may have no value projection: their values are the keys before norm and rotary embedding.
#pragma once

#include "ops/l2/attention_block.h"

namespace fk {

struct Gemma4AttentionInit : AttentionBlockInit {
  bool k_eq_v = false;  // there is no value projection

  template <class Visitor>
  void visit(Visitor&& v) {
    AttentionBlockInit::visit(v);
    v("k_eq_v", k_eq_v);
  }
};

class Gemma4Attention : public Operator {
 public:
  static constexpr std::string_view kName = "gemma4_attention";
  static constexpr std::string_view kClass = "Gemma4Attention";
  static constexpr int kLevel = 2;
  using Init = Gemma4AttentionInit;

  // positions i64 [T], hidden_states [T, D] -> out [T, D].
  static constexpr std::array kArgs = AttentionBlock::kArgs;

  explicit Gemma4Attention(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View hidden_states, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given) { return AttentionBlock::outputs(init, given); }
  static Inputs inputs(const Init& init, const Workload& w) { return AttentionBlock::inputs(init, w); }
  static Cost cost(const Init& init, const Workload& w);
  static Tolerance tolerance(const Init& init, DType dtype) { return AttentionBlock::tolerance(init, dtype); }
  static std::vector<Case<Gemma4Attention>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
