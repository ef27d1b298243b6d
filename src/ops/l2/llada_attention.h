// LLaDAAttention: the attention block of LLaDA: as Llama's, but every token attends to all tokens of its sequence, and
// nothing is kept between calls.
#pragma once

#include "ops/l2/attention_block.h"
#include "ops/l2/encoder_only_attention.h"

namespace fk {

class LLaDAAttention : public Operator {
 public:
  static constexpr std::string_view kName = "llada_attention";
  static constexpr std::string_view kClass = "LLaDAAttention";
  static constexpr int kLevel = 2;
  using Init = AttentionBlockInit;

  // positions i64 [T], hidden_states [T, D], cu_seqlens i32 [S+1]: where the tokens of each sequence start -> out [T,
  // D].
  static constexpr std::array kArgs{in("positions"), in("hidden_states"), in("cu_seqlens"), out("out")};

  explicit LLaDAAttention(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View hidden_states, View cu_seqlens, View out) = 0;

  static EncoderOnlyAttention::Init core(const Init& init);
  static OutputSpecs outputs(const Init&, Args given) { return {given[1]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype) { return AttentionBlock::tolerance(init, dtype); }
  static std::vector<Case<LLaDAAttention>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
