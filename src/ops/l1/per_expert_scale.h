// PerExpertScale: the weight that a token has for an expert times a number that belongs to the expert.
#pragma once

#include "ops/contract.h"

namespace fk {

class PerExpertScale : public Operator {
 public:
  static constexpr std::string_view kName = "per_expert_scale";
  static constexpr std::string_view kClass = "PerExpertScale";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_experts = 0;
    int64_t top_k = 1;
    DType dtype = DType::kBF16;  // of the experts' numbers

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_experts", num_experts);
      v("top_k", top_k);
      v("dtype", dtype);
    }
  };

  // topk_weights f32 [T, k]; topk_ids i32 [T, k], each in 0 .. E-1; rows contiguous -> out f32 [T, k].
  static constexpr std::array kArgs{in("topk_weights"), in("topk_ids"), out("out")};

  explicit PerExpertScale(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View topk_weights, View topk_ids, View out) = 0;

  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<PerExpertScale>> cases();

 protected:
  const View& weight() const { return param(0); }  // [E]
  const Init init_;
};

}  // namespace fk
