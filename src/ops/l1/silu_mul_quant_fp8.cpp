#include "ops/l1/silu_mul_quant_fp8.h"

#include <cmath>

#include "ops/algebra/pieces.h"
#include "ops/l1/fp8_groups.h"
#include "ops/register.h"

namespace fk {

OutputSpecs SiluMulQuantFp8::outputs(const Init& init, Args given) {
  const View& x = *given[0];
  auto [q, s] = fp8_group_specs(x.size(0), x.size(1) / 2, init.group_size, x.dtype());
  return {q, s};
}

Inputs SiluMulQuantFp8::inputs(const Init&, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), 2 * w.width}, w.dtype}, Generator::normal(0, 2)}};
}

Workload SiluMulQuantFp8::possible(const Init& init, const Workload& w) {
  return with_whole_groups(w, init.group_size);
}

Cost SiluMulQuantFp8::cost(const Init& init, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * w.width), size = static_cast<double>(dtype_size(w.dtype));
  auto scales = static_cast<double>(w.num_tokens() * fp8_groups(w.width, init.group_size));
  return {.read_bytes = 2 * n * size, .written_bytes = n + 4 * scales, .vector_flops = 8 * n};
}

Tolerance SiluMulQuantFp8::tolerance(const Init&, DType) { return rounding_tolerance(DType::kF8E4M3); }

std::vector<Case<SiluMulQuantFp8>> SiluMulQuantFp8::cases() {
  return {{"groups of 128", {}, Workload::rows(3, 256)},
          {"odd groups", {.group_size = 11}, Workload::rows(5, 77)},
          {"whole rows", {.group_size = 0}, Workload::rows(2, 99)},
          {"no tokens", {}, Workload::rows(0, 128)}};
}

std::string SiluMulQuantFp8::judge(const Init&, Args call, Args reference) {
  return judge_fp8_groups(*call[1], *call[2], *reference[1], *reference[2], 1e-5);
}

namespace {

class SiluMulQuantFp8Oracle final : public SiluMulQuantFp8 {
 public:
  using SiluMulQuantFp8::SiluMulQuantFp8;

  void forward(Context&, View x, View out, View scales) override {
    int64_t F = out.size(1);
    std::vector<double> row(static_cast<size_t>(F));
    for (int64_t t = 0; t < x.size(0); ++t) {
      for (int64_t i = 0; i < F; ++i) {
        double gate = get(x, t, i), up = get(x, t, F + i);
        row[static_cast<size_t>(i)] = gate / (1 + std::exp(-gate)) * up;
      }
      store_fp8_groups(row, init_.group_size, out, scales, t);
    }
  }
};

FK_OPERATOR(SiluMulQuantFp8, SiluMulQuantFp8Oracle);

void define_silu_mul_quant_fp8(const SiluMulQuantFp8::Init& init, Definition& d) {
  Expr x = d.arg("x"), gate = gate_of(x);
  algebra::define_fp8_groups(d, gate * logistic(gate) * up_of(x), init.group_size, "out", "scales");
}
FK_DEFINITION(SiluMulQuantFp8, define_silu_mul_quant_fp8);

}  // namespace
}  // namespace fk
