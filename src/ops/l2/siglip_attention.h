// SiglipAttention: projections with biases, and attention of every patch to all patches of its image.
#pragma once

#include "ops/l2/bert_attention.h"

namespace fk {

class SiglipAttention : public Operator {
 public:
  static constexpr std::string_view kName = "siglip_attention";
  static constexpr std::string_view kClass = "SiglipAttention";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t hidden_size = 0;
    int64_t num_attention_heads = 0;
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("num_attention_heads", num_attention_heads);
      v("dtype", dtype);
    }
  };

  // hidden_states [T, D], cu_seqlens i32 [B+1] -> out [T, D].
  static constexpr std::array kArgs{in("hidden_states"), in("cu_seqlens"), out("out")};

  explicit SiglipAttention(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View hidden_states, View cu_seqlens, View out) = 0;

  static EncoderOnlyAttention::Init core(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<SiglipAttention>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
