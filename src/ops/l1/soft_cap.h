// SoftCap: cap * tanh(x / cap), which keeps logits between -cap and cap.
#pragma once

#include "ops/contract.h"

namespace fk {

class SoftCap : public Operator {
 public:
  static constexpr std::string_view kName = "soft_cap";
  static constexpr std::string_view kClass = "SoftCap";
  static constexpr int kLevel = 1;

  struct Init {
    double cap = 30;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("cap", cap);
    }
  };

  // x [T, V], rows contiguous -> out [T, V], rounded once.
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit SoftCap(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<SoftCap>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
