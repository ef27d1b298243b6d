// PerTokenGroupQuantFp8: rounds activations to FP8 e4m3, with one scale for every group of a token.
#pragma once

#include "ops/contract.h"

namespace fk {

class PerTokenGroupQuantFp8 : public Operator {
 public:
  static constexpr std::string_view kName = "per_token_group_quant_fp8";
  static constexpr std::string_view kClass = "PerTokenGroupQuantFp8";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t group_size = 128;  // 0: one scale for a token

    template <class Visitor>
    void visit(Visitor&& v) {
      v("group_size", group_size);
    }
  };

  // x [T, K], rows contiguous -> x_q FP8 [T, K], x_s f32 [T, K / group_size]; x is about x_q * x_s.
  static constexpr std::array kArgs{in("x"), out("x_q"), out("x_s")};

  explicit PerTokenGroupQuantFp8(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View x_q, View x_s) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Workload possible(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<PerTokenGroupQuantFp8>> cases();
  static std::string judge(const Init& init, Args call, Args reference);

 protected:
  const Init init_;
};

}  // namespace fk
