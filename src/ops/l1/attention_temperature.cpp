#include "ops/l1/attention_temperature.h"

#include <cmath>

#include "ops/register.h"

namespace fk {

double AttentionTemperature::factor_of(const Init& init, int64_t position) {
  return 1 + init.attn_scale * std::log1p(static_cast<double>((position + 1) / init.floor_scale));
}

OutputSpecs AttentionTemperature::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[0]->size(0), 1}, init.dtype == DType::kF64 ? DType::kF64 : DType::kF32}};
}

Inputs AttentionTemperature::inputs(const Init& init, const Workload& w) {
  // Any positions, not those of the sequences: the output depends on nothing else, and must not be known beforehand.
  return {InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::integers(0, 64 * init.floor_scale)}};
}

Cost AttentionTemperature::cost(const Init&, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens());
  return {.read_bytes = 8 * T, .written_bytes = 4 * T, .vector_flops = 3 * T};
}

Tolerance AttentionTemperature::tolerance(const Init&, DType) { return rounding_tolerance(DType::kF32); }

std::vector<Case<AttentionTemperature>> AttentionTemperature::cases() {
  return {
      {"short", {.attn_scale = 0.5, .floor_scale = 4}, Workload::batch({{1, 40}, {1, 7}, {9, 0}})},
      {"published", {}, Workload::batch({{3, 8190}, {1, 70000}})},
      {"no tokens", {}, Workload::tokens(0)},
  };
}

namespace {

class AttentionTemperatureOracle final : public AttentionTemperature {
 public:
  using AttentionTemperature::AttentionTemperature;

  void forward(Context&, View positions, View factors) override {
    for (int64_t t = 0; t < positions.size(0); ++t)
      set(factors, factor_of(init_, static_cast<int64_t>(get(positions, t))), t, 0);
  }
};

FK_OPERATOR(AttentionTemperature, AttentionTemperatureOracle);

}  // namespace
}  // namespace fk
