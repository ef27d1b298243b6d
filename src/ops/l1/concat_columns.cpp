#include "ops/l1/concat_columns.h"

#include "ops/algebra/pieces.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk {

OutputSpecs ConcatColumns::outputs(const Init&, Args given) {
  return {TensorSpec{{given[0]->size(0), given[0]->size(1) + given[1]->size(1)}, given[0]->dtype()}};
}

Inputs ConcatColumns::inputs(const Init&, const Workload& w) {
  InputSpec half{{{w.num_tokens(), w.width}, w.dtype}, Generator::normal()};
  return {half, half};
}

Cost ConcatColumns::cost(const Init&, const Workload& w) {
  const double bytes = 2 * static_cast<double>(w.num_tokens() * w.width) * static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = bytes, .written_bytes = bytes};
}

std::vector<Case<ConcatColumns>> ConcatColumns::cases() {
  return {{"one element", {}, Workload::rows(1, 1)},
          {"odd", {}, Workload::rows(9, 77)},
          {"wide", {}, Workload::rows(33, 512)},
          {"no tokens", {}, Workload::rows(0, 8)}};
}

std::string_view ConcatColumns::refuse_call(Args args) const {
  std::string_view why = refuse_copy(*args[0], *args[2]);
  return why.empty() ? refuse_copy(*args[1], *args[2]) : why;
}

namespace {

class ConcatColumnsOracle final : public ConcatColumns {
 public:
  using ConcatColumns::ConcatColumns;

  void forward(Context&, View left, View right, View out) override {
    const int64_t width = left.size(1);
    for (int64_t t = 0; t < out.size(0); ++t)
      for (int64_t i = 0; i < out.size(1); ++i) set(out, i < width ? get(left, t, i) : get(right, t, i - width), t, i);
  }
};

FK_OPERATOR(ConcatColumns, ConcatColumnsOracle);

void define_concat_columns(const ConcatColumns::Init&, Definition& d) {
  d.result("out", algebra::beside(d.arg("left"), d.arg("right"), 1));
}
FK_DEFINITION(ConcatColumns, define_concat_columns);

}  // namespace
}  // namespace fk
