#include "ops/l1/fused_gdn_gating.h"

#include <algorithm>
#include <cmath>

#include "ops/algebra/pieces.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> FusedGDNGating::params(const Init& init) {
  return {{"A_log", {{init.num_v_heads}, init.dtype}}, {"dt_bias", {{init.num_v_heads}, init.dtype}}};
}

OutputSpecs FusedGDNGating::outputs(const Init& init, Args given) {
  TensorSpec out{{given[0]->size(0), init.num_v_heads}, given[0]->dtype() == DType::kF64 ? DType::kF64 : DType::kF32};
  return {out, out};
}

Inputs FusedGDNGating::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), 2 * init.num_v_heads}, w.dtype}, Generator::normal(0, 3)}};
}

Cost FusedGDNGating::cost(const Init& init, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * init.num_v_heads), size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = 2 * size * (n + static_cast<double>(init.num_v_heads)),
          .written_bytes = 8 * n,
          .vector_flops = 10 * n};
}

Tolerance FusedGDNGating::tolerance(const Init&, DType dtype) {
  // The results are f32 whatever the input is.
  return rounding_tolerance(dtype == DType::kF64 ? dtype : DType::kF32, 16);
}

std::vector<Case<FusedGDNGating>> FusedGDNGating::cases() {
  return {{"one head", {.num_k_heads = 1, .num_v_heads = 1}, Workload::tokens(1)},
          {"odd", {.num_k_heads = 3, .num_v_heads = 9}, Workload::tokens(7)},
          {"published", {.num_k_heads = 16, .num_v_heads = 32}, Workload::tokens(65)},
          {"no tokens", {.num_k_heads = 2, .num_v_heads = 4}, Workload::tokens(0)}};
}

namespace {

class FusedGDNGatingOracle final : public FusedGDNGating {
 public:
  using FusedGDNGating::FusedGDNGating;

  void forward(Context&, View ba, View g, View beta) override {
    for (int64_t t = 0; t < ba.size(0); ++t)
      for (int64_t h = 0; h < init_.num_v_heads; ++h) {
        const double b = get(ba, t, place_of(h)), a = get(ba, t, place_of(h) + init_.shared()) + get(dt_bias(), h);
        const double softplus = std::max(a, 0.0) + std::log1p(std::exp(-std::abs(a)));
        set(g, -std::exp(get(a_log(), h)) * softplus, t, h);
        set(beta, 1 / (1 + std::exp(-b)), t, h);
      }
  }
};

FK_OPERATOR(FusedGDNGating, FusedGDNGatingOracle);

void define_fused_gdn_gating(const FusedGDNGating::Init& init, Definition& d) {
  const int64_t shared = init.shared(), groups = init.num_v_heads / shared, tokens = d.arg("ba").size(0);
  // For each head of keys b, then a, of the heads of values that share it.
  Expr ba = reshape(cast(d.arg("ba"), d.real()), {tokens, groups, 2 * shared});
  Expr b = slice(ba, 2, 0, shared);
  Expr a = slice(ba, 2, shared, shared) + reshape(d.arg("dt_bias"), {groups, shared});
  d.result("g", reshape(-(exp(reshape(d.arg("A_log"), {groups, shared})) * algebra::softplus(a)),
                        {tokens, init.num_v_heads}));
  d.result("beta", reshape(logistic(b), {tokens, init.num_v_heads}));
}
FK_DEFINITION(FusedGDNGating, define_fused_gdn_gating);

}  // namespace
}  // namespace fk
