#include "ops/l1/gate_output_correction.h"

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> GateOutputCorrection::params(const Init& init) {
  return {{"r_k", {{init.num_heads, init.head_dim}, init.dtype}}};
}

OutputSpecs GateOutputCorrection::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs GateOutputCorrection::inputs(const Init& init, const Workload& w) {
  InputSpec row{{{w.num_tokens(), init.width()}, w.dtype}, Generator::normal()};
  return {row, row, row, row, row};
}

Cost GateOutputCorrection::cost(const Init& init, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * init.width()), size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = (5 * n + static_cast<double>(init.width())) * size,
          .written_bytes = n * size,
          .vector_flops = 6 * n};
}

Tolerance GateOutputCorrection::tolerance(const Init& init, DType dtype) {
  return rounding_tolerance(dtype, 4 * static_cast<double>(init.head_dim));
}

std::vector<Case<GateOutputCorrection>> GateOutputCorrection::cases() {
  return {{"one element", {.num_heads = 1, .head_dim = 1}, Workload::tokens(1)},
          {"odd", {.num_heads = 3, .head_dim = 21}, Workload::tokens(5)},
          {"wide", {.num_heads = 40, .head_dim = 64}, Workload::tokens(4)},
          {"many rows", {.num_heads = 2, .head_dim = 32}, Workload::tokens(67)},
          {"no tokens", {.num_heads = 2, .head_dim = 8}, Workload::tokens(0)}};
}

namespace {

class GateOutputCorrectionOracle final : public GateOutputCorrection {
 public:
  using GateOutputCorrection::GateOutputCorrection;

  void forward(Context&, View o, View r, View k, View v, View g, View out) override {
    for (int64_t t = 0; t < o.size(0); ++t)
      for (int64_t h = 0; h < init_.num_heads; ++h) {
        const int64_t first = h * init_.head_dim;
        double sum = 0;
        for (int64_t i = 0; i < init_.head_dim; ++i)
          sum += get(r, t, first + i) * get(k, t, first + i) * get(r_k(), h, i);
        for (int64_t i = first; i < first + init_.head_dim; ++i)
          set(out, (get(o, t, i) + sum * get(v, t, i)) * get(g, t, i), t, i);
      }
  }
};

FK_OPERATOR(GateOutputCorrection, GateOutputCorrectionOracle);

void define_gate_output_correction(const GateOutputCorrection::Init& init, Definition& d) {
  auto heads = [&](const char* name) {
    return reshape(d.arg(name), {d.arg(name).size(0), init.num_heads, init.head_dim});
  };
  Expr own = sum(heads("r") * heads("k") * d.arg("r_k"), -1);
  d.result("out", reshape((heads("o") + heads("v") * own) * heads("g"), d.arg("o").shape()));
}
FK_DEFINITION(GateOutputCorrection, define_gate_output_correction);

}  // namespace
}  // namespace fk
