#include "ops/l1/index_select.h"

#include "ops/algebra/definition.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk {

OutputSpecs IndexSelect::outputs(const Init&, Args given) {
  return {TensorSpec{{given[1]->size(0), given[0]->size(1)}, given[0]->dtype()}};
}

namespace {
int64_t rows_picked(const Workload& w) { return w.picks > 0 ? w.picks : (w.num_tokens() + 1) / 2; }
}  // namespace

Inputs IndexSelect::inputs(const Init&, const Workload& w) {
  int64_t T = w.num_tokens();
  return {InputSpec{{{T, w.width}, w.dtype}, Generator::normal()},
          InputSpec{{{rows_picked(w)}, DType::kI64}, Generator::integers(0, T)}};
}

Cost IndexSelect::cost(const Init&, const Workload& w) {
  auto rows = static_cast<double>(rows_picked(w));
  double row = static_cast<double>(w.width) * static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = 8 * rows + distinct_rows(static_cast<double>(w.num_tokens()), rows) * row,
          .written_bytes = rows * row};
}

Tolerance IndexSelect::tolerance(const Init&, DType) { return {}; }  // a copy is exact

std::vector<Case<IndexSelect>> IndexSelect::cases() {
  return {{"one element", {}, Workload::rows(1, 1)},
          {"odd", {}, Workload::rows(9, 77)},
          {"wide", {}, Workload::rows(33, 512)}};
}

std::string_view IndexSelect::refuse_call(Args args) const {
  if (args[1]->dtype() != DType::kI64) return "index must be i64";
  return refuse_copy(*args[0], *args[2]);
}

namespace {

class IndexSelectOracle final : public IndexSelect {
 public:
  using IndexSelect::IndexSelect;

  void forward(Context&, View x, View index, View out) override {
    for (int64_t row = 0; row < index.size(0); ++row)
      for (int64_t i = 0; i < x.size(1); ++i) set(out, get(x, static_cast<int64_t>(get(index, row)), i), row, i);
  }
};

FK_OPERATOR(IndexSelect, IndexSelectOracle);

void define_index_select(const IndexSelect::Init&, Definition& d) {
  d.result("out", gather(d.arg("x"), d.arg("index")));
}
FK_DEFINITION(IndexSelect, define_index_select);

}  // namespace
}  // namespace fk
