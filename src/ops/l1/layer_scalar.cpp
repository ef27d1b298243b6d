#include "ops/l1/layer_scalar.h"

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> LayerScalar::params(const Init& init) { return {{"weight", {{1}, init.dtype}}}; }

OutputSpecs LayerScalar::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs LayerScalar::inputs(const Init&, const Workload& w) {
  InputSpec rows{{{w.num_tokens(), w.width}, w.dtype}, Generator::normal()};
  return {rows, rows};
}

Cost LayerScalar::cost(const Init&, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * w.width);
  auto size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = (2 * n + 1) * size, .written_bytes = n * size, .vector_flops = 2 * n};
}

Tolerance LayerScalar::tolerance(const Init&, DType dtype) {
  Tolerance t = rounding_tolerance(dtype);
  return {t.relative, t.of_scale * 2};  // the sum can cancel
}

std::vector<Case<LayerScalar>> LayerScalar::cases() {
  return {{"one element", {}, Workload::rows(1, 1)},
          {"odd tail", {}, Workload::rows(3, 77)},
          {"wide", {}, Workload::rows(5, 1024)},
          {"one wide row", {}, Workload::rows(1, 40001)},
          {"no tokens", {}, Workload::rows(0, 8)}};
}

namespace {

class LayerScalarOracle final : public LayerScalar {
 public:
  using LayerScalar::LayerScalar;

  void forward(Context&, View x, View residual, View out) override {
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t i = 0; i < x.size(1); ++i) set(out, (get(x, t, i) + get(residual, t, i)) * get(weight(), 0), t, i);
  }
};

FK_OPERATOR(LayerScalar, LayerScalarOracle);

void define_layer_scalar(const LayerScalar::Init&, Definition& d) {
  d.result("out", (d.arg("x") + d.arg("residual")) * d.arg("weight"));
}
FK_DEFINITION(LayerScalar, define_layer_scalar);

}  // namespace
}  // namespace fk
