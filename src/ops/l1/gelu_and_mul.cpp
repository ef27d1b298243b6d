#include "ops/l1/gelu_and_mul.h"

#include <cmath>
#include <numbers>

#include "core/error.h"
#include "ops/algebra/pieces.h"
#include "ops/l1/gate_and_mul.h"
#include "ops/register.h"

namespace fk {

OutputSpecs GeluAndMul::outputs(const Init&, Args given) { return gate_and_mul::outputs(given); }
Inputs GeluAndMul::inputs(const Init&, const Workload& w) { return gate_and_mul::inputs(w); }
Cost GeluAndMul::cost(const Init&, const Workload& w) { return gate_and_mul::cost(w, 9); }

Tolerance GeluAndMul::tolerance(const Init&, DType dtype) {
  Tolerance t = rounding_tolerance(dtype);
  return {t.relative, t.of_scale * 2};  // 1 + tanh cancels for negative gates: right to a step of the largest value
}

std::vector<Case<GeluAndMul>> GeluAndMul::cases() {
  std::vector<Case<GeluAndMul>> cases;
  for (const char* approximate : {"none", "tanh"}) {
    cases.push_back({std::string(approximate) + ", one element", {approximate}, Workload::rows(1, 1)});
    cases.push_back({std::string(approximate) + ", odd tail", {approximate}, Workload::rows(3, 77)});
    cases.push_back({std::string(approximate) + ", wide", {approximate}, Workload::rows(5, 1024)});
  }
  return cases;
}

namespace {

class GeluAndMulOracle final : public GeluAndMul {
 public:
  using GeluAndMul::GeluAndMul;

  void forward(Context&, View x, View out) override {
    if (init_.approximate != "none" && init_.approximate != "tanh")
      throw Error("gelu_and_mul has no approximation '{}'; it has none and tanh.", init_.approximate);
    int64_t F = out.size(1);
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t i = 0; i < F; ++i) {
        double g = get(x, t, i), up = get(x, t, F + i);
        // (1 + tanh(u)) / 2 is 1 / (1 + exp(-2 u)), which does not cancel where tanh is near -1.
        double u = std::sqrt(2 / std::numbers::pi) * (g + 0.044715 * g * g * g);
        double gelu =
            init_.approximate == "tanh" ? g / (1 + std::exp(-2 * u)) : 0.5 * g * std::erfc(-g / std::numbers::sqrt2);
        set(out, gelu * up, t, i);
      }
  }
};

FK_OPERATOR(GeluAndMul, GeluAndMulOracle);

void define_gelu_and_mul(const GeluAndMul::Init& init, Definition& d) {
  Expr x = d.arg("x"), gate = gate_of(x);
  d.result("out", (init.approximate == "tanh" ? gelu_tanh(gate) : gelu(gate)) * up_of(x));
}
FK_DEFINITION(GeluAndMul, define_gelu_and_mul);

}  // namespace
}  // namespace fk
