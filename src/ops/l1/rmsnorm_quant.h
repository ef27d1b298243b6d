// RMSNormQuant: x / rms(x) * weight over the last dimension, rounded to FP8 e4m3 with one scale for every group of a
// token, or one for the token.
#pragma once

#include "ops/contract.h"

namespace fk {

class RMSNormQuant : public Operator {
 public:
  static constexpr std::string_view kName = "rmsnorm_quant";
  static constexpr std::string_view kClass = "RMSNormQuant";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t hidden_size = 0;
    double eps = 1e-6;
    int64_t group_size = 0;  // 0: one scale for a token
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("eps", eps);
      v("group_size", group_size);
      v("dtype", dtype);
    }
  };

  // x [T, D], rows contiguous -> out FP8 [T, D], scales f32 [T, D / group_size].
  static constexpr std::array kArgs{in("x"), out("out"), out("scales")};

  explicit RMSNormQuant(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out, View scales) = 0;

  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<RMSNormQuant>> cases();
  static std::string judge(const Init& init, Args call, Args reference);

 protected:
  const View& weight() const { return param(0); }
  const Init init_;
};

}  // namespace fk
