#include "ops/l1/soft_cap.h"

#include <cmath>

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

OutputSpecs SoftCap::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs SoftCap::inputs(const Init& init, const Workload& w) {
  // Wide enough that many elements are bent, and few are flat.
  return {InputSpec{{{w.num_tokens(), w.width}, w.dtype}, Generator::normal(0, init.cap)}};
}

Cost SoftCap::cost(const Init&, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * w.width);
  double size = n * static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = size, .written_bytes = size, .vector_flops = 3 * n};
}

Tolerance SoftCap::tolerance(const Init&, DType dtype) {
  Tolerance t = rounding_tolerance(dtype);
  return {t.relative, t.of_scale * 2};  // as of activation: what cancels is right to a step of the largest value
}

std::vector<Case<SoftCap>> SoftCap::cases() {
  return {{"one element", {}, Workload::rows(1, 1)},
          {"odd tail", {.cap = 3.5}, Workload::rows(3, 77)},
          {"wide", {.cap = 30}, Workload::rows(5, 1024)},
          {"one wide row", {.cap = 50}, Workload::rows(1, 40001)},
          {"no tokens", {}, Workload::rows(0, 8)}};
}

namespace {

class SoftCapOracle final : public SoftCap {
 public:
  using SoftCap::SoftCap;

  void forward(Context&, View x, View out) override {
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t i = 0; i < x.size(1); ++i) set(out, init_.cap * std::tanh(get(x, t, i) / init_.cap), t, i);
  }
};

FK_OPERATOR(SoftCap, SoftCapOracle);

void define_soft_cap(const SoftCap::Init& init, Definition& d) {
  d.result("out", init.cap * tanh(d.arg("x") / init.cap));
}
FK_DEFINITION(SoftCap, define_soft_cap);

}  // namespace
}  // namespace fk
