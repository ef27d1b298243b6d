// Argmax: index of the largest element of each row, the first of equals; a NaN counts as largest.
#pragma once

#include "ops/contract.h"

namespace fk {

class Argmax : public Operator {
 public:
  static constexpr std::string_view kName = "argmax";
  static constexpr std::string_view kClass = "Argmax";
  static constexpr int kLevel = 1;

  struct Init {
    template <class Visitor>
    void visit(Visitor&&) {}
  };

  // x [T, N] -> out i64 [T].
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit Argmax(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Argmax>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
