#include "ops/l1/softmax.h"

#include <algorithm>
#include <cmath>

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

OutputSpecs Softmax::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs Softmax::inputs(const Init&, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), w.width}, w.dtype}, Generator::normal(0, 3).or_special()}};
}

Cost Softmax::cost(const Init&, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * w.width);
  auto size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = n * size, .written_bytes = n * size, .vector_flops = 5 * n};
}

Tolerance Softmax::tolerance(const Init&, DType dtype) {
  Tolerance t = rounding_tolerance(dtype);
  return {t.relative + 8 * dtype_epsilon(DType::kF32), t.of_scale};  // exp of a large difference in float
}

std::vector<Case<Softmax>> Softmax::cases() {
  return {{"one element", {}, Workload::rows(1, 1)},
          {"odd tail", {}, Workload::rows(3, 77)},
          {"vocabulary", {}, Workload::rows(2, 5003)},
          {"one wide row", {}, Workload::rows(1, 70001)},
          {"no rows", {}, Workload::rows(0, 4)}};
}

namespace {

class SoftmaxOracle final : public Softmax {
 public:
  using Softmax::Softmax;

  void forward(Context&, View x, View out) override {
    for (int64_t t = 0; t < x.size(0); ++t) {
      double largest = -INFINITY, sum = 0;
      for (int64_t i = 0; i < x.size(1); ++i) largest = std::max(largest, get(x, t, i));
      for (int64_t i = 0; i < x.size(1); ++i) sum += std::exp(get(x, t, i) - largest);
      for (int64_t i = 0; i < x.size(1); ++i) set(out, std::exp(get(x, t, i) - largest) / sum, t, i);
    }
  }
};

FK_OPERATOR(Softmax, SoftmaxOracle);

void define_softmax(const Softmax::Init&, Definition& d) { d.result("out", softmax(d.arg("x"), 1)); }
FK_DEFINITION(Softmax, define_softmax);

}  // namespace
}  // namespace fk
