#include "ops/l1/swigluoai_and_mul.h"

#include <algorithm>
#include <cmath>

#include "ops/algebra/definition.h"
#include "ops/l1/gate_and_mul.h"
#include "ops/register.h"

namespace fk {

OutputSpecs SwigluOAIAndMul::outputs(const Init&, Args given) { return gate_and_mul::outputs(given); }
Inputs SwigluOAIAndMul::inputs(const Init& init, const Workload& w) {
  return gate_and_mul::inputs(w, init.limit / 2);  // wide enough that some elements are beyond the limit
}
Cost SwigluOAIAndMul::cost(const Init&, const Workload& w) { return gate_and_mul::cost(w, 5); }

Tolerance SwigluOAIAndMul::tolerance(const Init&, DType dtype) {
  Tolerance t = rounding_tolerance(dtype);
  return {t.relative, t.of_scale * 2};  // up + 1 can cancel
}

std::vector<Case<SwigluOAIAndMul>> SwigluOAIAndMul::cases() {
  return {{"one element", {}, Workload::rows(1, 1)},
          {"odd tail", {}, Workload::rows(3, 77)},
          {"another limit", {.alpha = 1.25, .limit = 2.5}, Workload::rows(5, 1024)},
          {"one wide row", {}, Workload::rows(1, 40001)},
          {"no tokens", {}, Workload::rows(0, 8)}};
}

namespace {

class SwigluOAIAndMulOracle final : public SwigluOAIAndMul {
 public:
  using SwigluOAIAndMul::SwigluOAIAndMul;

  void forward(Context&, View x, View out) override {
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t i = 0; i < out.size(1); ++i) {
        double gate = get(x, t, 2 * i), up = get(x, t, 2 * i + 1);
        gate = gate > init_.limit ? init_.limit : gate;  // NaN stays NaN
        up = up > init_.limit ? init_.limit : up < -init_.limit ? -init_.limit : up;
        set(out, gate / (1 + std::exp(-init_.alpha * gate)) * (up + 1), t, i);
      }
  }
};

FK_OPERATOR(SwigluOAIAndMul, SwigluOAIAndMulOracle);

void define_swigluoai_and_mul(const SwigluOAIAndMul::Init& init, Definition& d) {
  Expr x = d.arg("x");
  int64_t F = x.size(1) / 2;
  Expr gate = min(slice(x, 1, 0, F, 2), init.limit);
  Expr up = max(min(slice(x, 1, 1, F, 2), init.limit), -init.limit);
  d.result("out", gate * logistic(init.alpha * gate) * (up + 1));
}
FK_DEFINITION(SwigluOAIAndMul, define_swigluoai_and_mul);

}  // namespace
}  // namespace fk
