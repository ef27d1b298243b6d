#include "ops/l1/activation.h"

#include <cmath>
#include <numbers>

#include "core/error.h"
#include "ops/algebra/pieces.h"
#include "ops/register.h"

namespace fk {
namespace {

struct Function {
  std::string_view name;
  double (*of)(double x);
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

constexpr Function kFunctions[] = {
    {"gelu", [](double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }},
    // (1 + tanh(u)) / 2 is the logistic function of 2 u, which does not cancel where tanh is near -1.
    {"gelu_pytorch_tanh",
     [](double x) { return x * logistic(2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)); }},
    {"quick_gelu", [](double x) { return x * logistic(1.702 * x); }},
    {"relu", [](double x) { return x < 0 ? 0 : x; }},
    {"relu2", [](double x) { return x < 0 ? 0 : x * x; }},
    {"sigmoid", logistic},
    {"silu", [](double x) { return x * logistic(x); }},
    {"tanh", [](double x) { return std::tanh(x); }},
};

}  // namespace

OutputSpecs Activation::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs Activation::inputs(const Init&, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), w.width}, w.dtype}, Generator::normal(0, 2)}};
}

Cost Activation::cost(const Init&, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * w.width);
  double bytes = n * static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = bytes, .written_bytes = bytes, .vector_flops = n};
}

Tolerance Activation::tolerance(const Init&, DType dtype) {
  Tolerance t = rounding_tolerance(dtype);
  return {t.relative, t.of_scale * 2};  // as of gelu_and_mul: what cancels is right to a step of the largest value
}

std::vector<Case<Activation>> Activation::cases() {
  std::vector<Case<Activation>> cases;
  for (const Function& function : kFunctions) {
    std::string name(function.name);
    cases.push_back({name + ", odd tail", {name}, Workload::rows(3, 77)});
    cases.push_back({name + ", wide", {name}, Workload::rows(5, 1024)});
  }
  cases.push_back({"one element", {"gelu"}, Workload::rows(1, 1)});
  cases.push_back({"one wide row", {"tanh"}, Workload::rows(1, 40001)});
  cases.push_back({"no tokens", {"relu"}, Workload::rows(0, 8)});
  return cases;
}

namespace {

class ActivationOracle final : public Activation {
 public:
  using Activation::Activation;

  void forward(Context&, View x, View out) override {
    for (const Function& function : kFunctions)
      if (function.name == init_.function) return apply(function.of, x, out);
    std::string known;
    for (const Function& function : kFunctions) known += fmt::format("{}{}", known.empty() ? "" : ", ", function.name);
    throw Error("activation has no function '{}'; it has {}.", init_.function, known);
  }

 private:
  static void apply(double (*function)(double), const View& x, const View& out) {
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t i = 0; i < x.size(1); ++i) set(out, function(get(x, t, i)), t, i);
  }
};

FK_OPERATOR(Activation, ActivationOracle);

void define_activation(const Activation::Init& init, Definition& d) {
  Expr x = d.arg("x");
  if (init.function == "gelu") return d.result("out", gelu(x));
  if (init.function == "gelu_pytorch_tanh") return d.result("out", gelu_tanh(x));
  if (init.function == "quick_gelu") return d.result("out", x * logistic(1.702 * x));
  if (init.function == "relu") return d.result("out", max(x, 0));
  if (init.function == "relu2") return d.result("out", max(x, 0) * max(x, 0));
  if (init.function == "sigmoid") return d.result("out", logistic(x));
  if (init.function == "silu") return d.result("out", x * logistic(x));
  if (init.function == "tanh") return d.result("out", tanh(x));
  d.leave_opaque("its function '" + init.function + "' has no definition");
}
FK_DEFINITION(Activation, define_activation);

}  // namespace
}  // namespace fk
