// GroupedTopk: the experts of each token by their scores, which may be limited to the best groups of experts and
// corrected by a learned bias; and their weights.
#pragma once

#include "ops/contract.h"

namespace fk {

class GroupedTopk : public Operator {
 public:
  static constexpr std::string_view kName = "grouped_topk";
  static constexpr std::string_view kClass = "GroupedTopk";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_experts = 0;
    int64_t top_k = 1;
    bool renormalize = false;              // weights of a token add up to routed_scaling_factor; else they are scores
    int64_t num_expert_group = 1;          // groups of equally many experts
    int64_t topk_group = 1;                // groups that a token's experts may come from
    std::string scoring_func = "sigmoid";  // of the logits: "sigmoid" or "softmax"
    double routed_scaling_factor = 1;      // of all weights

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_experts", num_experts);
      v("top_k", top_k);
      v("renormalize", renormalize);
      v("num_expert_group", num_expert_group);
      v("topk_group", topk_group);
      v("scoring_func", scoring_func);
      v("routed_scaling_factor", routed_scaling_factor);
    }
  };

  // gating_output [T, E], rows contiguous; e_score_correction_bias f32 [E] -> topk_weights f32 [T, k], topk_ids i32
  // [T, k], the best first.
  // Experts are chosen by score + bias, and weighted by the score alone. With a bias, the value of a group is the sum
  // of its two best experts (of the only one, if it has one); without, it is that of the best. Of equal experts and
  // groups the one with the lower index comes first.
  static constexpr std::array kArgs{in("gating_output"), opt_in("e_score_correction_bias"), out("topk_weights"),
                                    out("topk_ids")};

  explicit GroupedTopk(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View gating_output, OptView e_score_correction_bias, View topk_weights,
                       View topk_ids) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<GroupedTopk>> cases();

  static std::string judge(const Init& init, Args call, Args reference);

  // Throws Error where the groups do not fit the experts, or the scoring function is not known.
  static void check(const Init& init);

 protected:
  const Init init_;
};

}  // namespace fk
