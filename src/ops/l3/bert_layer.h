// BertLayer: attention and a feed-forward block, each followed by the norm of its sum with its input.
#pragma once

#include "ops/l2/bert_attention.h"

namespace fk {

class BertLayer : public Operator {
 public:
  static constexpr std::string_view kName = "bert_layer";
  static constexpr std::string_view kClass = "BertLayer";
  static constexpr int kLevel = 3;

  struct Init {
    BertAttention::Init attention;
    int64_t intermediate_size = 0;
    std::string hidden_act = "gelu";

    template <class Visitor>
    void visit(Visitor&& v) {
      v("attention", attention);
      v("intermediate_size", intermediate_size);
      v("hidden_act", hidden_act);
    }
  };

  // hidden_states [T, D], cu_seqlens i32 [S+1] -> out [T, D].
  static constexpr std::array kArgs{in("hidden_states"), in("cu_seqlens"), out("out")};

  explicit BertLayer(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View hidden_states, View cu_seqlens, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<BertLayer>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
