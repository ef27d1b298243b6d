// ShiftIds: token ids counted from another first id, for a rank whose table begins there.
#pragma once

#include "ops/contract.h"

namespace fk {

class ShiftIds : public Operator {
 public:
  static constexpr std::string_view kName = "shift_ids";
  static constexpr std::string_view kClass = "ShiftIds";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t first = 0;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("first", first);
    }
  };

  // input_ids i64 [T] -> out i64 [T]: input_ids - first, negative for ids before it.
  static constexpr std::array kArgs{in("input_ids"), out("out")};

  explicit ShiftIds(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View input_ids, View out) = 0;

  static OutputSpecs outputs(const Init&, Args given) { return {given[0]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init&, DType) { return {}; }
  static std::vector<Case<ShiftIds>> cases();

 protected:
  // Why no implementation on any device supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
