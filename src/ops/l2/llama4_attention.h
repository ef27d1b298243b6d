// Llama4Attention: the attention block of Llama 4. Layers with a rotary embedding see only the keys of their own chunk
// and norm queries and keys; the others see all keys and scale queries by their position.
#pragma once

#include "ops/l2/attention_block.h"

namespace fk {

struct Llama4AttentionInit : AttentionBlockInit {
  bool use_rope = true;
  int64_t attention_chunk_size = 0;      // 0: none
  bool attn_temperature_tuning = false;  // of layers without a rotary embedding, by the two numbers below
  double attn_scale = 0.1;
  int64_t floor_scale = 8192;

  template <class Visitor>
  void visit(Visitor&& v) {
    AttentionBlockInit::visit(v);
    v("use_rope", use_rope);
    v("attention_chunk_size", attention_chunk_size);
    v("attn_temperature_tuning", attn_temperature_tuning);
    v("attn_scale", attn_scale);
    v("floor_scale", floor_scale);
  }
};

class Llama4Attention : public Operator {
 public:
  static constexpr std::string_view kName = "llama4_attention";
  static constexpr std::string_view kClass = "Llama4Attention";
  static constexpr int kLevel = 2;
  using Init = Llama4AttentionInit;

  // positions i64 [T], hidden_states [T, D] -> out [T, D].
  static constexpr std::array kArgs = AttentionBlock::kArgs;

  explicit Llama4Attention(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View hidden_states, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given) { return AttentionBlock::outputs(init, given); }
  static Inputs inputs(const Init& init, const Workload& w) { return AttentionBlock::inputs(init, w); }
  static Cost cost(const Init& init, const Workload& w) { return AttentionBlock::cost_with(init, core(init), w); }
  static Tolerance tolerance(const Init& init, DType dtype) { return AttentionBlock::tolerance(init, dtype); }
  static std::vector<Case<Llama4Attention>> cases();

  static Attention::Init core(const Init& init);

 protected:
  const Init init_;
};

}  // namespace fk
