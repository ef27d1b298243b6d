// MoeSum: the outputs of a token's experts, each times its weight, added up.
#pragma once

#include "ops/contract.h"

namespace fk {

class MoeSum : public Operator {
 public:
  static constexpr std::string_view kName = "moe_sum";
  static constexpr std::string_view kClass = "MoeSum";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t top_k = 1;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("top_k", top_k);
    }
  };

  // x [T, k, D], rows contiguous; topk_weights f32 [T, k] -> out [T, D], rounded once.
  static constexpr std::array kArgs{in("x"), in("topk_weights"), out("out")};

  explicit MoeSum(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View topk_weights, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<MoeSum>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
