// L2Norm: x / sqrt(sum of x^2 + eps) over the last dimension.
#pragma once

#include "ops/contract.h"

namespace fk {

class L2Norm : public Operator {
 public:
  static constexpr std::string_view kName = "l2_norm";
  static constexpr std::string_view kClass = "L2Norm";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t hidden_size = 0;
    double eps = 1e-6;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("eps", eps);
    }
  };

  // x [T, H, D], rows contiguous -> out [T, H, D].
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit L2Norm(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<L2Norm>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
