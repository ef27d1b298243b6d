#include "ops/l1/scale_rows.h"

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

OutputSpecs ScaleRows::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs ScaleRows::inputs(const Init&, const Workload& w) {
  DType scale = w.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return {InputSpec{{{w.num_tokens(), w.width}, w.dtype}, Generator::normal()},
          InputSpec{{{w.num_tokens(), 1}, scale}, Generator::normal()}};
}

Cost ScaleRows::cost(const Init&, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), n = T * static_cast<double>(w.width);
  double size = n * static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = size + 4 * T, .written_bytes = size, .vector_flops = n};
}

Tolerance ScaleRows::tolerance(const Init&, DType dtype) { return rounding_tolerance(dtype); }

std::vector<Case<ScaleRows>> ScaleRows::cases() {
  return {{"one element", {}, Workload::rows(1, 1)},
          {"odd tail", {}, Workload::rows(3, 77)},
          {"wide", {}, Workload::rows(5, 1024)},
          {"one wide row", {}, Workload::rows(1, 40001)},
          {"no tokens", {}, Workload::rows(0, 8)}};
}

namespace {

class ScaleRowsOracle final : public ScaleRows {
 public:
  using ScaleRows::ScaleRows;

  void forward(Context&, View x, View scale, View out) override {
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t i = 0; i < x.size(1); ++i) set(out, get(x, t, i) * get(scale, t, 0), t, i);
  }
};

FK_OPERATOR(ScaleRows, ScaleRowsOracle);

void define_scale_rows(const ScaleRows::Init&, Definition& d) { d.result("out", d.arg("x") * d.arg("scale")); }
FK_DEFINITION(ScaleRows, define_scale_rows);

}  // namespace
}  // namespace fk
