#include "ops/l1/gemma_rms_norm.h"

#include <cmath>

#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> GemmaRMSNorm::params(const Init& init) { return {{"weight", {{init.hidden_size}, init.dtype}}}; }

OutputSpecs GemmaRMSNorm::outputs(const Init&, Args given) {
  const OptView& residual = given[1];
  return {given[0]->spec(), residual ? std::optional(residual->spec()) : std::nullopt};
}

Inputs GemmaRMSNorm::inputs(const Init& init, const Workload& w) {
  Shape x = w.width > 0 ? Shape{w.num_tokens(), w.width, init.hidden_size} : Shape{w.num_tokens(), init.hidden_size};
  InputSpec input{{x, w.dtype}, Generator::normal()};
  return {input, w.optional_inputs ? std::optional(input) : std::nullopt};
}

Cost GemmaRMSNorm::cost(const Init& init, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * std::max<int64_t>(w.width, 1) * init.hidden_size);
  double tensors = w.optional_inputs ? 4 : 2;
  return {.bytes = (tensors * n + static_cast<double>(init.hidden_size)) * static_cast<double>(dtype_size(w.dtype)),
          .vector_flops = (w.optional_inputs ? 5 : 4) * n};
}

Tolerance GemmaRMSNorm::tolerance(const Init& init, DType dtype) {
  // The sum with the residual is rounded to dtype before it is normalised, which moves out by one more rounding.
  Tolerance t = rounding_tolerance(dtype, static_cast<double>(init.hidden_size));
  return {t.relative + dtype_epsilon(dtype), t.of_scale};
}

std::vector<Case<GemmaRMSNorm>> GemmaRMSNorm::cases() {
  return {
      {"one element", {.hidden_size = 1}, Workload::tokens(1)},
      {"odd tail", {.hidden_size = 77, .eps = 1e-5}, Workload::tokens(3)},
      {"odd tail with residual", {.hidden_size = 131}, Workload::tokens(5, true)},
      {"wide", {.hidden_size = 2048}, Workload::tokens(4, true)},
      {"many rows", {.hidden_size = 64}, Workload::tokens(67)},
      {"large eps", {.hidden_size = 48, .eps = 0.5}, Workload::tokens(2, true)},
      {"heads", {.hidden_size = 24}, Workload::rows(5, 3)},
      {"no tokens", {.hidden_size = 16}, Workload::tokens(0)},
  };
}

namespace {

class GemmaRMSNormOracle final : public GemmaRMSNorm {
 public:
  using GemmaRMSNorm::GemmaRMSNorm;

  void forward(Context&, View x, OptView residual, View out, OptView residual_out) override {
    for (int64_t t = 0; t < x.size(0); ++t) {
      if (x.rank() == 2) {
        normalise(x.select(0, t), select(residual, t), out.select(0, t), select(residual_out, t));
      } else {
        for (int64_t h = 0; h < x.size(1); ++h)
          normalise(x.select(0, t).select(0, h), {}, out.select(0, t).select(0, h), {});
      }
    }
  }

 private:
  static OptView select(const OptView& v, int64_t t) { return v ? OptView(v->select(0, t)) : std::nullopt; }

  void normalise(const View& x, const OptView& residual, const View& out, const OptView& residual_out) const {
    int64_t D = init_.hidden_size;
    std::vector<double> sum(static_cast<size_t>(D));
    double squares = 0;
    for (int64_t i = 0; i < D; ++i) {
      sum[i] = get(x, i) + (residual ? get(*residual, i) : 0);
      squares += sum[i] * sum[i];
    }
    double scale = 1 / std::sqrt(squares / static_cast<double>(D) + init_.eps);
    for (int64_t i = 0; i < D; ++i) {
      set(out, sum[i] * scale * (1 + get(weight(), i)), i);
      if (residual_out) set(*residual_out, sum[i], i);
    }
  }
};

FK_OPERATOR(GemmaRMSNorm, GemmaRMSNormOracle);

}  // namespace
}  // namespace fk
