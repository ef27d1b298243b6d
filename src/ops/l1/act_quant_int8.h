// ActQuantInt8: rows rounded to the 255 numbers -127 s .. 127 s, where 127 s is the row's largest magnitude. The
// result has the dtype of x: it is what products of 8-bit integers compute with, and what BitNet is trained with.
#pragma once

#include "ops/contract.h"

namespace fk {

class ActQuantInt8 : public Operator {
 public:
  static constexpr std::string_view kName = "act_quant_int8";
  static constexpr std::string_view kClass = "ActQuantInt8";
  static constexpr int kLevel = 1;

  struct Init {
    double least_magnitude = 1e-5;  // rows whose largest is smaller have the steps of this one

    template <class Visitor>
    void visit(Visitor&& v) {
      v("least_magnitude", least_magnitude);
    }
  };

  // x [T, D], rows contiguous -> out [T, D]: s round(x / s), halves to even numbers.
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit ActQuantInt8(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  // Numbers half-way between two steps may be rounded to either.
  static std::string judge(const Init& init, Args call, Args reference);
  static std::vector<Case<ActQuantInt8>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
