#include "ops/l1/rmsnorm_quant.h"

#include <cmath>

#include "ops/algebra/pieces.h"
#include "ops/l1/fp8_groups.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> RMSNormQuant::params(const Init& init) { return {{"weight", {{init.hidden_size}, init.dtype}}}; }

OutputSpecs RMSNormQuant::outputs(const Init& init, Args given) {
  const View& x = *given[0];
  auto [q, s] = fp8_group_specs(x.size(0), init.hidden_size, init.group_size, x.dtype());
  return {q, s};
}

Inputs RMSNormQuant::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()}};
}

Cost RMSNormQuant::cost(const Init& init, const Workload& w) {
  auto D = static_cast<double>(init.hidden_size), n = static_cast<double>(w.num_tokens()) * D,
       size = static_cast<double>(dtype_size(w.dtype));
  auto scales = static_cast<double>(w.num_tokens() * fp8_groups(init.hidden_size, init.group_size));
  return {.read_bytes = (n + D) * size, .written_bytes = n + 4 * scales, .vector_flops = 7 * n};
}

Tolerance RMSNormQuant::tolerance(const Init&, DType) { return rounding_tolerance(DType::kF8E4M3); }

std::vector<Case<RMSNormQuant>> RMSNormQuant::cases() {
  return {{"whole rows", {.hidden_size = 200}, Workload::tokens(3)},
          {"groups of 128", {.hidden_size = 256, .group_size = 128}, Workload::tokens(2)},
          {"odd groups", {.hidden_size = 77, .group_size = 11}, Workload::tokens(5)},
          {"no tokens", {.hidden_size = 64}, Workload::tokens(0)}};
}

std::string RMSNormQuant::judge(const Init&, Args call, Args reference) {
  return judge_fp8_groups(*call[1], *call[2], *reference[1], *reference[2], 1e-5);
}

namespace {

class RMSNormQuantOracle final : public RMSNormQuant {
 public:
  using RMSNormQuant::RMSNormQuant;

  void forward(Context&, View x, View out, View scales) override {
    std::vector<double> row(static_cast<size_t>(init_.hidden_size));
    for (int64_t t = 0; t < x.size(0); ++t) {
      double squares = 0;
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] = get(x, t, i);
        squares += row[i] * row[i];
      }
      double scale = 1 / std::sqrt(squares / static_cast<double>(row.size()) + init_.eps);
      for (size_t i = 0; i < row.size(); ++i) row[i] *= scale * get(weight(), i);
      store_fp8_groups(row, init_.group_size, out, scales, t);
    }
  }
};

FK_OPERATOR(RMSNormQuant, RMSNormQuantOracle);

void define_rmsnorm_quant(const RMSNormQuant::Init& init, Definition& d) {
  Expr x = d.arg("x");
  Expr normal = x / sqrt(mean(x * x, 1) + init.eps) * d.arg("weight");
  algebra::define_fp8_groups(d, normal, init.group_size, "out", "scales");
}
FK_DEFINITION(RMSNormQuant, define_rmsnorm_quant);

}  // namespace
}  // namespace fk
