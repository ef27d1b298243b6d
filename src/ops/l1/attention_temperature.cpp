#include "ops/l1/attention_temperature.h"

#include <cmath>

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

double AttentionTemperature::factor_of(const Init& init, int64_t position) {
  return 1 + init.attn_scale * std::log1p(static_cast<double>((position + 1) / init.floor_scale));
}

OutputSpecs AttentionTemperature::outputs(const Init&, Args given) { return {given[1]->spec()}; }

namespace {
int64_t query_width(const Workload& w) { return w.width > 0 ? w.width : 40; }
}  // namespace

Inputs AttentionTemperature::inputs(const Init& init, const Workload& w) {
  // Any positions, not those of the sequences: in a short context every factor would be 1. The longest is that of the
  // published models, about ten million tokens.
  return {InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::integers(0, 1024 * init.floor_scale)},
          InputSpec{{{w.num_tokens(), query_width(w)}, w.dtype}, Generator::normal()}};
}

Cost AttentionTemperature::cost(const Init&, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), n = T * static_cast<double>(query_width(w));
  double size = n * static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = size + 8 * T, .written_bytes = size, .vector_flops = n + 3 * T};
}

Tolerance AttentionTemperature::tolerance(const Init&, DType dtype) { return rounding_tolerance(dtype); }

std::vector<Case<AttentionTemperature>> AttentionTemperature::cases() {
  return {
      {"short", {.attn_scale = 0.5, .floor_scale = 4}, Workload::rows(11, 77)},
      {"published", {}, Workload::rows(4, 5120)},
      {"many rows", {.floor_scale = 16}, Workload::rows(131, 24)},
      {"no tokens", {}, Workload::rows(0, 8)},
  };
}

namespace {

class AttentionTemperatureOracle final : public AttentionTemperature {
 public:
  using AttentionTemperature::AttentionTemperature;

  void forward(Context&, View positions, View query, View out) override {
    for (int64_t t = 0; t < positions.size(0); ++t) {
      const double factor = factor_of(init_, static_cast<int64_t>(get(positions, t)));
      for (int64_t i = 0; i < query.size(1); ++i) set(out, get(query, t, i) * factor, t, i);
    }
  }
};

FK_OPERATOR(AttentionTemperature, AttentionTemperatureOracle);

void define_attention_temperature(const AttentionTemperature::Init& init, Definition& d) {
  Expr steps = floor_divide(d.arg("positions") + 1, static_cast<double>(init.floor_scale));
  Expr factor = 1 + init.attn_scale * log(1 + steps);
  d.result("out", d.arg("query") * insert_axis(factor, 1));
}
FK_DEFINITION(AttentionTemperature, define_attention_temperature);

}  // namespace
}  // namespace fk
