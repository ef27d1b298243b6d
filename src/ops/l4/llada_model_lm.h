// LLaDAModelLM: a diffusion language model. One pass gives, for every masked token of a text, the logits of what it may
// be; each token sees the whole text. Nothing is kept between passes.
#pragma once

#include "ops/l3/llada_llama_block.h"
#include "ops/l4/decoder_model_init.h"

namespace fk {

struct LLaDAModelLMInit : DecoderModelInit {
  bool include_qkv_bias = false;
  bool include_bias = false;  // of all other products but the head
  int64_t mask_token_id = 0;  // what unknown tokens are; the model itself treats it as any other

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("include_qkv_bias", include_qkv_bias);
    v("include_bias", include_bias);
    v("mask_token_id", mask_token_id);
  }
};

class LLaDAModelLM : public Operator {
 public:
  static constexpr std::string_view kName = "llada_model_lm";
  static constexpr std::string_view kClass = "LLaDAModelLM";
  static constexpr int kLevel = 4;
  using Init = LLaDAModelLMInit;

  // input_ids, positions i64 [T]; logits_indices i64 [L]: the tokens whose logits are wanted; cu_seqlens i32 [S+1]:
  // where the tokens of each sequence start -> logits f32 [L, V].
  static constexpr std::array kArgs{in("input_ids"), in("positions"), in("logits_indices"), in("cu_seqlens"),
                                    out("logits")};

  explicit LLaDAModelLM(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View input_ids, View positions, View logits_indices, View cu_seqlens,
                       View logits) = 0;

  static DecoderLayerInit layer(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<LLaDAModelLM>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
