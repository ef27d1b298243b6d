// LogSigmoid: log(sigmoid(x)) / temperature, the decay of gated linear attention.
#pragma once

#include "ops/contract.h"

namespace fk {

class LogSigmoid : public Operator {
 public:
  static constexpr std::string_view kName = "logsigmoid";
  static constexpr std::string_view kClass = "LogSigmoid";
  static constexpr int kLevel = 1;

  struct Init {
    double temperature = 1;
    double clamp_min = 0;  // results below it are raised to it; 0: none are

    template <class Visitor>
    void visit(Visitor&& v) {
      v("temperature", temperature);
      v("clamp_min", clamp_min);
    }
  };

  // x [T, D], rows contiguous -> out f32 [T, D]: a decay acts on every later token, so it is not rounded to the dtype.
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit LogSigmoid(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<LogSigmoid>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
