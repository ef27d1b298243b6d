#include "ops/l1/logsigmoid.h"

#include <algorithm>
#include <cmath>

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

OutputSpecs LogSigmoid::outputs(const Init&, Args given) {
  return {TensorSpec{given[0]->shape(), given[0]->dtype() == DType::kF64 ? DType::kF64 : DType::kF32}};
}

Inputs LogSigmoid::inputs(const Init&, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), w.width}, w.dtype}, Generator::normal(0, 4)}};
}

Cost LogSigmoid::cost(const Init&, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * w.width);
  return {.read_bytes = n * static_cast<double>(dtype_size(w.dtype)), .written_bytes = 4 * n, .vector_flops = 4 * n};
}

Tolerance LogSigmoid::tolerance(const Init&, DType dtype) {
  // The result is f32 whatever the input is.
  return rounding_tolerance(dtype == DType::kF64 ? dtype : DType::kF32, 4);
}

std::vector<Case<LogSigmoid>> LogSigmoid::cases() {
  return {{"one element", {}, Workload::rows(1, 1)},
          {"odd tail", {.temperature = 16}, Workload::rows(3, 77)},
          {"clamped", {.temperature = 3, .clamp_min = -0.5}, Workload::rows(5, 1024)},
          {"one wide row", {.temperature = 16}, Workload::rows(1, 40001)},
          {"no tokens", {}, Workload::rows(0, 8)}};
}

namespace {

class LogSigmoidOracle final : public LogSigmoid {
 public:
  using LogSigmoid::LogSigmoid;

  void forward(Context&, View x, View out) override {
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t i = 0; i < x.size(1); ++i) {
        double v = get(x, t, i), y = (std::min(v, 0.0) - std::log1p(std::exp(-std::abs(v)))) / init_.temperature;
        set(out, init_.clamp_min < 0 ? std::max(y, init_.clamp_min) : y, t, i);
      }
  }
};

FK_OPERATOR(LogSigmoid, LogSigmoidOracle);

void define_logsigmoid(const LogSigmoid::Init& init, Definition& d) {
  Expr x = cast(d.arg("x"), d.real());
  Expr out = (min(x, 0) - log(1 + exp(-abs(x)))) / init.temperature;
  d.result("out", init.clamp_min < 0 ? max(out, init.clamp_min) : out);
}
FK_DEFINITION(LogSigmoid, define_logsigmoid);

}  // namespace
}  // namespace fk
