// IndexSelect: the rows of a tensor named by a list of indices.
#pragma once

#include "ops/contract.h"

namespace fk {

class IndexSelect : public Operator {
 public:
  static constexpr std::string_view kName = "index_select";
  static constexpr std::string_view kClass = "IndexSelect";
  static constexpr int kLevel = 1;

  struct Init {
    template <class Visitor>
    void visit(Visitor&&) {}
  };

  // x [T, D], index i64 [L] with values in 0 .. T-1 -> out [L, D].
  static constexpr std::array kArgs{in("x"), in("index"), out("out")};

  explicit IndexSelect(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View index, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<IndexSelect>> cases();

 protected:
  // Why no implementation on any device supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
