// GroupNorm: each group of neighbouring channels of a row normed for itself, then a weight and a bias per channel.
#pragma once

#include "ops/contract.h"

namespace fk {

class GroupNorm : public Operator {
 public:
  static constexpr std::string_view kName = "group_norm";
  static constexpr std::string_view kClass = "GroupNorm";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_groups = 1;
    int64_t hidden_size = 0;  // a multiple of num_groups
    double eps = 1e-5;
    bool bias = true;
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_groups", num_groups);
      v("hidden_size", hidden_size);
      v("eps", eps);
      v("bias", bias);
      v("dtype", dtype);
    }
  };

  // x [T, D], rows contiguous -> out [T, D].
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit GroupNorm(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<GroupNorm>> cases();

 protected:
  const View& weight() const { return param(0); }
  OptView bias() const { return init_.bias ? OptView(param(1)) : std::nullopt; }
  const Init init_;
};

}  // namespace fk
