#include "ops/l1/l2_norm.h"

#include <algorithm>
#include <cmath>

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

OutputSpecs L2Norm::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs L2Norm::inputs(const Init& init, const Workload& w) {
  int64_t heads = std::max<int64_t>(w.width, 1);
  // So small that a usual eps matters.
  double deviation = std::max(1e-4, 2 * std::sqrt(init.eps / static_cast<double>(init.hidden_size)));
  return {InputSpec{{{w.num_tokens(), heads, init.hidden_size}, w.dtype}, Generator::normal(0, deviation)}};
}

Cost L2Norm::cost(const Init& init, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * std::max<int64_t>(w.width, 1) * init.hidden_size);
  double size = n * static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = size, .written_bytes = size, .vector_flops = 3 * n};
}

Tolerance L2Norm::tolerance(const Init& init, DType dtype) {
  return rounding_tolerance(dtype, static_cast<double>(init.hidden_size));
}

std::vector<Case<L2Norm>> L2Norm::cases() {
  return {{"one element", {.hidden_size = 1}, Workload::rows(1, 1)},
          {"odd tail", {.hidden_size = 77, .eps = 1e-5}, Workload::rows(3, 5)},
          {"many heads", {.hidden_size = 64}, Workload::rows(9, 40)},
          {"one head", {.hidden_size = 2048}, Workload::rows(4, 1)},
          {"hardly any eps", {.hidden_size = 64, .eps = 1e-24}, Workload::rows(2, 3)},
          {"large eps", {.hidden_size = 48, .eps = 0.5}, Workload::rows(2, 3)},
          {"no tokens", {.hidden_size = 16}, Workload::rows(0, 4)}};
}

namespace {

class L2NormOracle final : public L2Norm {
 public:
  using L2Norm::L2Norm;

  void forward(Context&, View x, View out) override {
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t h = 0; h < x.size(1); ++h) {
        double squares = 0;
        for (int64_t i = 0; i < x.size(2); ++i) squares += get(x, t, h, i) * get(x, t, h, i);
        for (int64_t i = 0; i < x.size(2); ++i) set(out, get(x, t, h, i) / std::sqrt(squares + init_.eps), t, h, i);
      }
  }
};

FK_OPERATOR(L2Norm, L2NormOracle);

void define_l2_norm(const L2Norm::Init& init, Definition& d) {
  Expr x = d.arg("x");
  d.result("out", x / sqrt(sum(x * x, -1) + init.eps));
}
FK_DEFINITION(L2Norm, define_l2_norm);

}  // namespace
}  // namespace fk
