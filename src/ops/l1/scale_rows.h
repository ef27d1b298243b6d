// ScaleRows: every row times a number of its own.
#pragma once

#include "ops/contract.h"

namespace fk {

class ScaleRows : public Operator {
 public:
  static constexpr std::string_view kName = "scale_rows";
  static constexpr std::string_view kClass = "ScaleRows";
  static constexpr int kLevel = 1;

  struct Init {
    template <class Visitor>
    void visit(Visitor&&) {}
  };

  // x [T, D], rows contiguous; scale f32 [T, 1] -> out [T, D], rounded once.
  static constexpr std::array kArgs{in("x"), in("scale"), out("out")};

  explicit ScaleRows(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View scale, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<ScaleRows>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
