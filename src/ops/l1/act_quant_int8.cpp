#include "ops/l1/act_quant_int8.h"

#include <fmt/format.h>

#include <cmath>

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {
namespace {

constexpr double kLargestCode = 127;

// Steps of a row; NaN if the row has one.
double steps_of(const View& x, int64_t t, double least) {
  double largest = least;
  for (int64_t i = 0; i < x.size(1); ++i) {
    double magnitude = std::abs(get(x, t, i));
    if (std::isnan(magnitude)) return magnitude;
    largest = std::max(largest, magnitude);
  }
  return largest / kLargestCode;
}

}  // namespace

OutputSpecs ActQuantInt8::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs ActQuantInt8::inputs(const Init&, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), w.width}, w.dtype}, Generator::normal()}};
}

Cost ActQuantInt8::cost(const Init&, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * w.width);
  double size = n * static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = size, .written_bytes = size, .vector_flops = 4 * n};
}

Tolerance ActQuantInt8::tolerance(const Init&, DType dtype) {
  Tolerance t = rounding_tolerance(dtype);
  return {t.relative, t.of_scale + 1 / kLargestCode};  // a step, for numbers half-way
}

std::string ActQuantInt8::judge(const Init& init, Args call, Args reference) {
  constexpr double kNearHalf = 1e-3;  // f32 is right to 1e-5 steps
  const View &x = *call[0], &out = *call[1], &expected = *reference[1];
  const Tolerance rounding = rounding_tolerance(out.dtype());
  for (int64_t t = 0; t < x.size(0); ++t) {
    const double step = steps_of(x, t, init.least_magnitude);
    for (int64_t i = 0; i < x.size(1); ++i) {
      double got = get(out, t, i), want = get(expected, t, i);
      if (std::isnan(want) && std::isnan(got)) continue;
      double at = get(x, t, i) / step, below = std::floor(at);
      if (std::abs(at - below - 0.5) < kNearHalf) {
        double low = below * step, high = (below + 1) * step;
        want = std::abs(got - low) < std::abs(got - high) ? low : high;
      }
      if (!(std::abs(got - want) <= rounding.relative * std::abs(want) + rounding.of_scale * kLargestCode * step))
        return fmt::format("element [{}, {}] is {:.6g}, which should be {:.6g}; the steps of its row are {:.3g}", t, i,
                           got, want, step);
    }
  }
  return {};
}

std::vector<Case<ActQuantInt8>> ActQuantInt8::cases() {
  return {{"one element", {}, Workload::rows(1, 1)},
          {"odd tail", {}, Workload::rows(3, 77)},
          {"wide", {}, Workload::rows(5, 1024)},
          {"one wide row", {}, Workload::rows(1, 40001)},
          {"least magnitude", {.least_magnitude = 100}, Workload::rows(2, 64)},
          {"no tokens", {}, Workload::rows(0, 8)}};
}

namespace {

class ActQuantInt8Oracle final : public ActQuantInt8 {
 public:
  using ActQuantInt8::ActQuantInt8;

  void forward(Context&, View x, View out) override {
    for (int64_t t = 0; t < x.size(0); ++t) {
      double step = steps_of(x, t, init_.least_magnitude);
      for (int64_t i = 0; i < x.size(1); ++i) set(out, std::nearbyint(get(x, t, i) / step) * step, t, i);
    }
  }
};

FK_OPERATOR(ActQuantInt8, ActQuantInt8Oracle);

void define_act_quant_int8(const ActQuantInt8::Init& init, Definition& d) {
  Expr x = d.arg("x");
  Expr step = max(largest(abs(x), 1), init.least_magnitude) / kLargestCode;
  d.result("out", round_even(x / step) * step);
}
FK_DEFINITION(ActQuantInt8, define_act_quant_int8);

}  // namespace
}  // namespace fk
