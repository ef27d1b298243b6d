#include "ops/l1/sigmoid_mul.h"

#include <cmath>

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

namespace {

// Cases do not say how many: three.
int64_t gated_heads(const Workload& w) { return w.kv_heads > 0 ? w.kv_heads : 3; }

}  // namespace

OutputSpecs SigmoidMul::outputs(const Init&, Args given) { return {TensorSpec{given[0]->shape(), given[0]->dtype()}}; }

Inputs SigmoidMul::inputs(const Init&, const Workload& w) {
  InputSpec rows{{{w.num_tokens(), gated_heads(w), w.width}, w.dtype}, Generator::normal(0, 2)};
  return {rows, rows};
}

Cost SigmoidMul::cost(const Init&, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * gated_heads(w) * w.width),
       size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = 2 * n * size, .written_bytes = n * size, .vector_flops = 4 * n};
}

Tolerance SigmoidMul::tolerance(const Init&, DType dtype) { return rounding_tolerance(dtype, 2); }

std::vector<Case<SigmoidMul>> SigmoidMul::cases() {
  return {{"one element", {}, Workload::rows(1, 1)},
          {"odd tail", {}, Workload::rows(3, 77)},
          {"wide", {}, Workload::rows(5, 1024)},
          {"many rows", {}, Workload::rows(67, 16)},
          {"no tokens", {}, Workload::rows(0, 8)}};
}

namespace {

class SigmoidMulOracle final : public SigmoidMul {
 public:
  using SigmoidMul::SigmoidMul;

  void forward(Context&, View x, View gate, View out) override {
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t h = 0; h < x.size(1); ++h)
        for (int64_t i = 0; i < x.size(2); ++i)
          set(out, get(x, t, h, i) / (1 + std::exp(-get(gate, t, h, i))), t, h, i);
  }
};

FK_OPERATOR(SigmoidMul, SigmoidMulOracle);

void define_sigmoid_mul(const SigmoidMul::Init&, Definition& d) {
  d.result("out", d.arg("x") * logistic(d.arg("gate")));
}
FK_DEFINITION(SigmoidMul, define_sigmoid_mul);

}  // namespace
}  // namespace fk
