#include "ops/l1/scale_add.h"

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

OutputSpecs ScaleAdd::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs ScaleAdd::inputs(const Init&, const Workload& w) {
  InputSpec rows{{{w.num_tokens(), w.width}, w.dtype}, Generator::normal()};
  return {rows, w.optional_inputs ? std::optional(rows) : std::nullopt};
}

Cost ScaleAdd::cost(const Init&, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * w.width);
  double size = n * static_cast<double>(dtype_size(w.dtype)), read = w.optional_inputs ? 2 : 1;
  return {.read_bytes = read * size, .written_bytes = size, .vector_flops = read * n};
}

Tolerance ScaleAdd::tolerance(const Init&, DType dtype) {
  Tolerance t = rounding_tolerance(dtype);
  return {t.relative, t.of_scale * 2};  // the sum can cancel what was rounded before
}

std::vector<Case<ScaleAdd>> ScaleAdd::cases() {
  auto rows = [](int64_t tokens, int64_t width, bool residual) {
    Workload w = Workload::rows(tokens, width);
    w.optional_inputs = residual;
    return w;
  };
  return {{"one element", {.scale = 0.5}, rows(1, 1, true)},        {"odd tail", {.scale = 0.22}, rows(3, 77, true)},
          {"only scaled", {.scale = 1.0 / 3}, rows(5, 131, false)}, {"only added", {}, rows(4, 256, true)},
          {"one wide row", {.scale = -2.5}, rows(1, 40001, true)},  {"no tokens", {.scale = 2}, rows(0, 8, true)}};
}

namespace {

class ScaleAddOracle final : public ScaleAdd {
 public:
  using ScaleAdd::ScaleAdd;

  void forward(Context&, View x, OptView residual, View out) override {
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t i = 0; i < x.size(1); ++i)
        set(out, get(x, t, i) * init_.scale + (residual ? get(*residual, t, i) : 0), t, i);
  }
};

FK_OPERATOR(ScaleAdd, ScaleAddOracle);

void define_scale_add(const ScaleAdd::Init& init, Definition& d) {
  Expr scaled = d.arg("x") * init.scale;
  d.result("out", d.has("residual") ? scaled + d.arg("residual") : scaled);
}
FK_DEFINITION(ScaleAdd, define_scale_add);

}  // namespace
}  // namespace fk
