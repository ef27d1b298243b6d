// LayerScalar: the output of a block is added to the residual, and the sum multiplied by one number that the layer has
// learned.
#pragma once

#include "ops/contract.h"

namespace fk {

class LayerScalar : public Operator {
 public:
  static constexpr std::string_view kName = "layer_scalar";
  static constexpr std::string_view kClass = "LayerScalar";
  static constexpr int kLevel = 1;

  struct Init {
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("dtype", dtype);
    }
  };

  // x, residual [T, D], rows contiguous -> out [T, D] = (x + residual) * weight, rounded once.
  static constexpr std::array kArgs{in("x"), in("residual"), out("out")};

  explicit LayerScalar(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View residual, View out) = 0;

  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<LayerScalar>> cases();

 protected:
  const View& weight() const { return param(0); }
  const Init init_;
};

}  // namespace fk
