// RMSNorm: x / rms(x) * weight over the last dimension, optionally adding a residual first.
#pragma once

#include "ops/contract.h"

namespace fk {

class RMSNorm : public Operator {
 public:
  static constexpr std::string_view kName = "rms_norm";
  static constexpr std::string_view kClass = "RMSNorm";
  static constexpr int kLevel = 1;
  static constexpr double kWeightOffset = 0;  // added to every weight

  struct Init {
    int64_t hidden_size = 0;
    double eps = 1e-6;
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("eps", eps);
      v("dtype", dtype);
    }
  };

  // x [T, D] or, without a residual, [T, H, D]; rows contiguous. With a residual: residual_out = x + residual, and out
  // is the norm of that sum.
  static constexpr std::array kArgs{in("x"), opt_in("residual"), out("out"), opt_out("residual_out")};

  explicit RMSNorm(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, OptView residual, View out, OptView residual_out) = 0;

  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<RMSNorm>> cases();

 protected:
  const View& weight() const { return param(0); }
  const Init init_;
};

}  // namespace fk
