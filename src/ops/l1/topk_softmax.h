// TopkSoftmax: the k experts with the largest router logits of each token, and their weights.
#pragma once

#include "ops/contract.h"

namespace fk {

class TopkSoftmax : public Operator {
 public:
  static constexpr std::string_view kName = "topk_softmax";
  static constexpr std::string_view kClass = "TopkSoftmax";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_experts = 0;
    int64_t top_k = 1;
    bool renormalize = false;  // weights of a token add up to one; else they are its softmax over all experts

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_experts", num_experts);
      v("top_k", top_k);
      v("renormalize", renormalize);
    }
  };

  // gating_output [T, E], rows contiguous -> topk_weights f32 [T, k], topk_ids i32 [T, k], the largest first. Of equal
  // logits the one with the lower index comes first.
  static constexpr std::array kArgs{in("gating_output"), out("topk_weights"), out("topk_ids")};

  explicit TopkSoftmax(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View gating_output, View topk_weights, View topk_ids) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<TopkSoftmax>> cases();

  static std::string judge(const Init& init, Args call, Args reference);

 protected:
  const Init init_;
};

}  // namespace fk
