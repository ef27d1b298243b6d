#include "ops/l1/silu_and_mul.h"

#include <cmath>

#include "ops/algebra/pieces.h"
#include "ops/l1/gate_and_mul.h"
#include "ops/register.h"

namespace fk {

OutputSpecs SiluAndMul::outputs(const Init&, Args given) { return gate_and_mul::outputs(given); }
Inputs SiluAndMul::inputs(const Init&, const Workload& w) { return gate_and_mul::inputs(w); }
Cost SiluAndMul::cost(const Init&, const Workload& w) { return gate_and_mul::cost(w, 5); }

Tolerance SiluAndMul::tolerance(const Init&, DType dtype) { return rounding_tolerance(dtype); }

std::vector<Case<SiluAndMul>> SiluAndMul::cases() {
  return {{"one element", {}, Workload::rows(1, 1)},
          {"odd tail", {}, Workload::rows(3, 77)},
          {"wide", {}, Workload::rows(5, 1024)},
          {"one wide row", {}, Workload::rows(1, 40001)},
          {"no tokens", {}, Workload::rows(0, 8)}};
}

namespace {

class SiluAndMulOracle final : public SiluAndMul {
 public:
  using SiluAndMul::SiluAndMul;

  void forward(Context&, View x, View out) override {
    int64_t F = out.size(1);
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t i = 0; i < F; ++i) {
        double gate = get(x, t, i), up = get(x, t, F + i);
        set(out, gate / (1 + std::exp(-gate)) * up, t, i);
      }
  }
};

FK_OPERATOR(SiluAndMul, SiluAndMulOracle);

void define_silu_and_mul(const SiluAndMul::Init&, Definition& d) {
  Expr x = d.arg("x"), gate = gate_of(x);
  d.result("out", gate * logistic(gate) * up_of(x));
}
FK_DEFINITION(SiluAndMul, define_silu_and_mul);

}  // namespace
}  // namespace fk
