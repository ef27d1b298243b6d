// GeluAndMul: gelu(gate) * up, where gate and up are the halves of the last dimension.
#pragma once

#include "ops/contract.h"

namespace fk {

class GeluAndMul : public Operator {
 public:
  static constexpr std::string_view kName = "gelu_and_mul";
  static constexpr std::string_view kClass = "GeluAndMul";
  static constexpr int kLevel = 1;

  struct Init {
    std::string approximate = "none";  // "none" (erf) or "tanh"

    template <class Visitor>
    void visit(Visitor&& v) {
      v("approximate", approximate);
    }
  };

  // x [T, 2 F], rows contiguous -> out [T, F].
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit GeluAndMul(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<GeluAndMul>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
