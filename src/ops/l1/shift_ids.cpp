#include "ops/l1/shift_ids.h"

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

Inputs ShiftIds::inputs(const Init& init, const Workload& w) {
  // Ids before and behind the first.
  return {InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::integers(0, 2 * init.first + 1000)}};
}

Cost ShiftIds::cost(const Init&, const Workload& w) {
  double bytes = 8 * static_cast<double>(w.num_tokens());
  return {.read_bytes = bytes, .written_bytes = bytes};
}

std::vector<Case<ShiftIds>> ShiftIds::cases() {
  return {{"one token", {.first = 160}, Workload::tokens(1)},
          {"odd", {.first = 64128}, Workload::tokens(77)},
          {"from zero", {}, Workload::tokens(5)},
          {"no tokens", {.first = 3}, Workload::tokens(0)}};
}

std::string_view ShiftIds::refuse_call(Args args) const {
  return args[0]->dtype() == DType::kI64 && args[1]->dtype() == DType::kI64 ? "" : "ids must be i64";
}

namespace {

class ShiftIdsOracle final : public ShiftIds {
 public:
  using ShiftIds::ShiftIds;

  void forward(Context&, View input_ids, View out) override {
    for (int64_t t = 0; t < input_ids.size(0); ++t) set(out, get(input_ids, t) - static_cast<double>(init_.first), t);
  }
};

FK_OPERATOR(ShiftIds, ShiftIdsOracle);

void define_shift_ids(const ShiftIds::Init& init, Definition& d) {
  d.result("out", d.arg("input_ids") - static_cast<double>(init.first));
}
FK_DEFINITION(ShiftIds, define_shift_ids);

}  // namespace
}  // namespace fk
