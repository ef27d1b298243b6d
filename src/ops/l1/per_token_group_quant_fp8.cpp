#include "ops/l1/per_token_group_quant_fp8.h"

#include "ops/algebra/pieces.h"
#include "ops/l1/fp8_groups.h"
#include "ops/register.h"

namespace fk {

OutputSpecs PerTokenGroupQuantFp8::outputs(const Init& init, Args given) {
  const View& x = *given[0];
  auto [q, s] = fp8_group_specs(x.size(0), x.size(1), init.group_size, x.dtype());
  return {q, s};
}

Inputs PerTokenGroupQuantFp8::inputs(const Init&, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), w.width}, w.dtype}, Generator::normal()}};
}

Workload PerTokenGroupQuantFp8::possible(const Init& init, const Workload& w) {
  return with_whole_groups(w, init.group_size);
}

Cost PerTokenGroupQuantFp8::cost(const Init& init, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * w.width), size = static_cast<double>(dtype_size(w.dtype));
  auto scales = static_cast<double>(w.num_tokens() * fp8_groups(w.width, init.group_size));
  return {.read_bytes = n * size, .written_bytes = n + 4 * scales, .vector_flops = 3 * n};
}

Tolerance PerTokenGroupQuantFp8::tolerance(const Init&, DType) { return rounding_tolerance(DType::kF8E4M3); }

std::vector<Case<PerTokenGroupQuantFp8>> PerTokenGroupQuantFp8::cases() {
  return {{"groups of 128", {}, Workload::rows(3, 384)},
          {"one group", {.group_size = 64}, Workload::rows(1, 64)},
          {"odd groups", {.group_size = 7}, Workload::rows(5, 77)},
          {"whole rows", {.group_size = 0}, Workload::rows(4, 99)},
          {"no tokens", {}, Workload::rows(0, 128)}};
}

std::string PerTokenGroupQuantFp8::judge(const Init&, Args call, Args reference) {
  return judge_fp8_groups(*call[1], *call[2], *reference[1], *reference[2], 0);
}

namespace {

class PerTokenGroupQuantFp8Oracle final : public PerTokenGroupQuantFp8 {
 public:
  using PerTokenGroupQuantFp8::PerTokenGroupQuantFp8;

  void forward(Context&, View x, View x_q, View x_s) override {
    std::vector<double> row(static_cast<size_t>(x.size(1)));
    for (int64_t t = 0; t < x.size(0); ++t) {
      for (size_t i = 0; i < row.size(); ++i) row[i] = get(x, t, i);
      store_fp8_groups(row, init_.group_size, x_q, x_s, t);
    }
  }
};

FK_OPERATOR(PerTokenGroupQuantFp8, PerTokenGroupQuantFp8Oracle);

void define_per_token_group_quant_fp8(const PerTokenGroupQuantFp8::Init& init, Definition& d) {
  algebra::define_fp8_groups(d, d.arg("x"), init.group_size, "x_q", "x_s");
}
FK_DEFINITION(PerTokenGroupQuantFp8, define_per_token_group_quant_fp8);

}  // namespace
}  // namespace fk
