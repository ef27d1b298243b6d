#include "ops/l1/fused_kda_gate.h"

#include <algorithm>
#include <cmath>

#include "ops/algebra/pieces.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> FusedKDAGate::params(const Init& init) {
  const DType exact = init.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return {{"A_log", {{1, 1, init.num_heads, 1}, exact}}, {"dt_bias", {{init.width()}, exact}}};
}

OutputSpecs FusedKDAGate::outputs(const Init& init, Args given) {
  const DType exact = given[0]->dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  return {TensorSpec{{given[0]->size(0), init.width()}, exact}, TensorSpec{{given[0]->size(0), init.num_heads}, exact}};
}

Inputs FusedKDAGate::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.width()}, w.dtype}, Generator::normal(0, 3)},
          InputSpec{{{w.num_tokens(), init.num_heads}, w.dtype}, Generator::normal(0, 3)}};
}

Cost FusedKDAGate::cost(const Init& init, const Workload& w) {
  const auto T = static_cast<double>(w.num_tokens()), width = static_cast<double>(init.width()),
             heads = static_cast<double>(init.num_heads), size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = (size * T + 4) * (width + heads),
          .written_bytes = 4 * T * (width + heads),
          .vector_flops = 6 * T * (width + heads)};
}

Tolerance FusedKDAGate::tolerance(const Init&, DType dtype) {
  // The results are f32 whatever the input is.
  return rounding_tolerance(dtype == DType::kF64 ? dtype : DType::kF32, 16);
}

std::vector<Case<FusedKDAGate>> FusedKDAGate::cases() {
  return {{"one element", {.num_heads = 1, .head_dim = 1}, Workload::tokens(1)},
          {"odd", {.num_heads = 3, .head_dim = 21}, Workload::tokens(7)},
          {"published", {.num_heads = 32, .head_dim = 128}, Workload::tokens(17)},
          {"no tokens", {.num_heads = 2, .head_dim = 10}, Workload::tokens(0)}};
}

namespace {

class FusedKDAGateOracle final : public FusedKDAGate {
 public:
  using FusedKDAGate::FusedKDAGate;

  void forward(Context&, View f, View b, View g, View beta) override {
    for (int64_t t = 0; t < f.size(0); ++t) {
      for (int64_t i = 0; i < init_.width(); ++i) {
        const double x = get(f, t, i) + get(dt_bias(), i);
        const double softplus = std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
        set(g, -std::exp(get(a_log(), 0, 0, i / init_.head_dim, 0)) * softplus, t, i);
      }
      for (int64_t h = 0; h < init_.num_heads; ++h) set(beta, 1 / (1 + std::exp(-get(b, t, h))), t, h);
    }
  }
};

FK_OPERATOR(FusedKDAGate, FusedKDAGateOracle);

void define_fused_kda_gate(const FusedKDAGate::Init& init, Definition& d) {
  using namespace algebra;
  Expr x = cast(d.arg("f"), d.real()) + d.arg("dt_bias");
  Expr rate = reshape(broadcast(reshape(exp(d.arg("A_log")), {init.num_heads, 1}), {init.num_heads, init.head_dim}),
                      {init.width()});
  d.result("g", -(rate * algebra::softplus(x)));
  d.result("beta", logistic(cast(d.arg("b"), d.real())));
}

FK_DEFINITION(FusedKDAGate, define_fused_kda_gate);

}  // namespace
}  // namespace fk
