// MoeAlign: the (token, expert) pairs of a batch in the order of their experts, so that each expert's rows are
// together.
#pragma once

#include "ops/contract.h"

namespace fk {

class MoeAlign : public Operator {
 public:
  static constexpr std::string_view kName = "moe_align";
  static constexpr std::string_view kClass = "MoeAlign";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_experts = 0;
    int64_t top_k = 1;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_experts", num_experts);
      v("top_k", top_k);
    }
  };

  // topk_ids i32 [T, k], each in 0 .. E-1 -> sorted_token_ids i32 [T * k]: indices t * k + j into topk_ids, by expert,
  // those of one expert ascending; expert_offsets i32 [E + 1]: expert e has sorted_token_ids[offsets[e] ..
  // offsets[e + 1] - 1].
  static constexpr std::array kArgs{in("topk_ids"), out("sorted_token_ids"), out("expert_offsets")};

  explicit MoeAlign(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View topk_ids, View sorted_token_ids, View expert_offsets) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<MoeAlign>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
