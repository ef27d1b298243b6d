#include "ops/l1/unweighted_rms_norm.h"

#include <algorithm>
#include <cmath>

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

OutputSpecs UnweightedRMSNorm::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs UnweightedRMSNorm::inputs(const Init& init, const Workload& w) {
  int64_t heads = std::max<int64_t>(w.width, 1);
  // So small that eps matters: of larger numbers the output would not change with the size of the input.
  return {
      InputSpec{{{w.num_tokens(), heads, init.hidden_size}, w.dtype}, Generator::normal(0, 2 * std::sqrt(init.eps))}};
}

Cost UnweightedRMSNorm::cost(const Init& init, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * std::max<int64_t>(w.width, 1) * init.hidden_size);
  double size = n * static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = size, .written_bytes = size, .vector_flops = 3 * n};
}

Tolerance UnweightedRMSNorm::tolerance(const Init& init, DType dtype) {
  return rounding_tolerance(dtype, static_cast<double>(init.hidden_size));
}

std::vector<Case<UnweightedRMSNorm>> UnweightedRMSNorm::cases() {
  return {
      {"two elements", {.hidden_size = 2}, Workload::rows(1, 1)},
      {"odd tail", {.hidden_size = 77, .eps = 1e-5}, Workload::rows(3, 5)},
      {"many heads", {.hidden_size = 64}, Workload::rows(9, 40)},
      {"one head", {.hidden_size = 2048}, Workload::rows(4, 1)},
      {"large eps", {.hidden_size = 48, .eps = 0.5}, Workload::rows(2, 3)},
      {"no tokens", {.hidden_size = 16}, Workload::rows(0, 4)},
  };
}

namespace {

class UnweightedRMSNormOracle final : public UnweightedRMSNorm {
 public:
  using UnweightedRMSNorm::UnweightedRMSNorm;

  void forward(Context&, View x, View out) override {
    const int64_t D = init_.hidden_size;
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t h = 0; h < x.size(1); ++h) {
        double squares = 0;
        for (int64_t i = 0; i < D; ++i) squares += get(x, t, h, i) * get(x, t, h, i);
        double scale = 1 / std::sqrt(squares / static_cast<double>(D) + init_.eps);
        for (int64_t i = 0; i < D; ++i) set(out, get(x, t, h, i) * scale, t, h, i);
      }
  }
};

FK_OPERATOR(UnweightedRMSNorm, UnweightedRMSNormOracle);

void define_unweighted_rms_norm(const UnweightedRMSNorm::Init& init, Definition& d) {
  Expr x = d.arg("x");
  d.result("out", x / sqrt(mean(x * x, -1) + init.eps));
}
FK_DEFINITION(UnweightedRMSNorm, define_unweighted_rms_norm);

}  // namespace
}  // namespace fk
