// Softmax over the last dimension.
#pragma once

#include "ops/contract.h"

namespace fk {

class Softmax : public Operator {
 public:
  static constexpr std::string_view kName = "softmax";
  static constexpr std::string_view kClass = "Softmax";
  static constexpr int kLevel = 1;

  struct Init {
    template <class Visitor>
    void visit(Visitor&&) {}
  };

  // x [T, N], rows contiguous -> out [T, N] of the same dtype.
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit Softmax(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Softmax>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
