#include "ops/l1/sigmoid_mul_add.h"

#include <cmath>

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

OutputSpecs SigmoidMulAdd::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs SigmoidMulAdd::inputs(const Init&, const Workload& w) {
  InputSpec rows{{{w.num_tokens(), w.width}, w.dtype}, Generator::normal()};
  DType gate = w.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return {rows, InputSpec{{{w.num_tokens(), 1}, gate}, Generator::normal(0, 2)}, rows};
}

Cost SigmoidMulAdd::cost(const Init&, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), n = T * static_cast<double>(w.width);
  double size = n * static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = 2 * size + 4 * T, .written_bytes = size, .vector_flops = 2 * n};
}

Tolerance SigmoidMulAdd::tolerance(const Init&, DType dtype) {
  Tolerance t = rounding_tolerance(dtype);
  return {t.relative, t.of_scale * 2};  // the sum can cancel what was rounded before
}

std::vector<Case<SigmoidMulAdd>> SigmoidMulAdd::cases() {
  return {{"one element", {}, Workload::rows(1, 1)},
          {"odd tail", {}, Workload::rows(3, 77)},
          {"wide", {}, Workload::rows(5, 1024)},
          {"one wide row", {}, Workload::rows(1, 40001)},
          {"no tokens", {}, Workload::rows(0, 8)}};
}

namespace {

class SigmoidMulAddOracle final : public SigmoidMulAdd {
 public:
  using SigmoidMulAdd::SigmoidMulAdd;

  void forward(Context&, View x, View gate, View residual, View out) override {
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t i = 0; i < x.size(1); ++i)
        set(out, get(residual, t, i) + get(x, t, i) / (1 + std::exp(-get(gate, t, 0))), t, i);
  }
};

FK_OPERATOR(SigmoidMulAdd, SigmoidMulAddOracle);

void define_sigmoid_mul_add(const SigmoidMulAdd::Init&, Definition& d) {
  d.result("out", d.arg("residual") + d.arg("x") * logistic(d.arg("gate")));
}
FK_DEFINITION(SigmoidMulAdd, define_sigmoid_mul_add);

}  // namespace
}  // namespace fk
