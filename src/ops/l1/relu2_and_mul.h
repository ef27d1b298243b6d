// Relu2AndMul: max(gate, 0)^2 * up, where gate and up are the halves of the last dimension.
#pragma once

#include "ops/contract.h"

namespace fk {

class Relu2AndMul : public Operator {
 public:
  static constexpr std::string_view kName = "relu2_and_mul";
  static constexpr std::string_view kClass = "Relu2AndMul";
  static constexpr int kLevel = 1;

  struct Init {
    template <class Visitor>
    void visit(Visitor&&) {}
  };

  // x [T, 2 F], rows contiguous -> out [T, F].
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit Relu2AndMul(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Relu2AndMul>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
