#include "ops/l1/relu2_and_mul.h"

#include "ops/algebra/pieces.h"
#include "ops/l1/gate_and_mul.h"
#include "ops/register.h"

namespace fk {

OutputSpecs Relu2AndMul::outputs(const Init&, Args given) { return gate_and_mul::outputs(given); }
Inputs Relu2AndMul::inputs(const Init&, const Workload& w) { return gate_and_mul::inputs(w); }
Cost Relu2AndMul::cost(const Init&, const Workload& w) { return gate_and_mul::cost(w, 3); }

Tolerance Relu2AndMul::tolerance(const Init&, DType dtype) { return rounding_tolerance(dtype); }

std::vector<Case<Relu2AndMul>> Relu2AndMul::cases() {
  return {{"one element", {}, Workload::rows(1, 1)},
          {"odd tail", {}, Workload::rows(3, 77)},
          {"wide", {}, Workload::rows(5, 1024)},
          {"one wide row", {}, Workload::rows(1, 40001)},
          {"no tokens", {}, Workload::rows(0, 8)}};
}

namespace {

class Relu2AndMulOracle final : public Relu2AndMul {
 public:
  using Relu2AndMul::Relu2AndMul;

  void forward(Context&, View x, View out) override {
    int64_t F = out.size(1);
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t i = 0; i < F; ++i) {
        double gate = get(x, t, i), up = get(x, t, F + i);
        // A gate that is no number stays one.
        double positive = gate < 0 ? 0 : gate;
        set(out, positive * positive * up, t, i);
      }
  }
};

FK_OPERATOR(Relu2AndMul, Relu2AndMulOracle);

void define_relu2_and_mul(const Relu2AndMul::Init&, Definition& d) {
  Expr x = d.arg("x"), positive = max(gate_of(x), 0);
  d.result("out", positive * positive * up_of(x));
}
FK_DEFINITION(Relu2AndMul, define_relu2_and_mul);

}  // namespace
}  // namespace fk
