#include "ops/l1/rms_norm_gated.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/algebra/definition.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> RMSNormGated::params(const Init& init) { return {{"weight", {{init.hidden_size}, init.dtype}}}; }

OutputSpecs RMSNormGated::outputs(const Init&, Args given) {
  return {TensorSpec{given[0]->shape(), given[0]->dtype()}};
}

Inputs RMSNormGated::inputs(const Init& init, const Workload& w) {
  Shape x = w.width > 0 ? Shape{w.num_tokens(), w.width, init.hidden_size} : Shape{w.num_tokens(), init.hidden_size};
  InputSpec input{{x, w.dtype}, Generator::normal()};
  return {input, input};
}

Cost RMSNormGated::cost(const Init& init, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * std::max<int64_t>(w.width, 1) * init.hidden_size);
  auto size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = (2 * n + static_cast<double>(init.hidden_size)) * size,
          .written_bytes = n * size,
          .vector_flops = 7 * n};
}

Tolerance RMSNormGated::tolerance(const Init& init, DType dtype) {
  return rounding_tolerance(dtype, static_cast<double>(init.group()));
}

std::vector<Case<RMSNormGated>> RMSNormGated::cases() {
  return {
      {"one element", {.hidden_size = 1}, Workload::tokens(1)},
      {"odd tail", {.hidden_size = 77, .eps = 1e-2}, Workload::tokens(3)},
      {"norm first", {.hidden_size = 131, .norm_before_gate = true}, Workload::tokens(5)},
      {"groups", {.hidden_size = 96, .group_size = 24}, Workload::tokens(7)},
      {"odd groups, norm first", {.hidden_size = 57, .group_size = 19, .norm_before_gate = true}, Workload::tokens(4)},
      {"sigmoid, heads", {.hidden_size = 24, .norm_before_gate = true, .sigmoid = true}, Workload::rows(5, 3)},
      {"heads of 128", {.hidden_size = 128, .norm_before_gate = true}, Workload::rows(9, 4)},
      {"wide", {.hidden_size = 4096}, Workload::tokens(3)},
      {"wide groups", {.hidden_size = 4096, .group_size = 512}, Workload::tokens(2)},
      {"no tokens", {.hidden_size = 16}, Workload::tokens(0)},
  };
}

std::string_view RMSNormGated::refuse_call(Args args) const {
  if (init_.hidden_size % init_.group() != 0) return "group_size must divide hidden_size";
  return refuse_rows({&args[0], &args[1], &args[2]});
}

namespace {

class RMSNormGatedOracle final : public RMSNormGated {
 public:
  using RMSNormGated::RMSNormGated;

  void forward(Context&, View x, View gate, View out) override {
    for (int64_t t = 0; t < x.size(0); ++t) {
      if (x.rank() == 2) {
        norm_row(x.select(0, t), gate.select(0, t), out.select(0, t));
      } else {
        for (int64_t h = 0; h < x.size(1); ++h)
          norm_row(x.select(0, t).select(0, h), gate.select(0, t).select(0, h), out.select(0, t).select(0, h));
      }
    }
  }

 private:
  void norm_row(const View& x, const View& gate, const View& out) const {
    auto act = [&](double g) { return (init_.sigmoid ? 1 : g) / (1 + std::exp(-g)); };
    for (int64_t first = 0; first < init_.hidden_size; first += init_.group()) {
      std::vector<double> normed;
      double squares = 0;
      for (int64_t i = first; i < first + init_.group(); ++i) {
        normed.push_back(init_.norm_before_gate ? get(x, i) : get(x, i) * act(get(gate, i)));
        squares += normed.back() * normed.back();
      }
      double scale = 1 / std::sqrt(squares / static_cast<double>(init_.group()) + init_.eps);
      for (int64_t i = first; i < first + init_.group(); ++i) {
        double result = normed[static_cast<size_t>(i - first)] * scale * get(weight(), i);
        set(out, init_.norm_before_gate ? result * act(get(gate, i)) : result, i);
      }
    }
  }
};

FK_OPERATOR(RMSNormGated, RMSNormGatedOracle);

void define_rms_norm_gated(const RMSNormGated::Init& init, Definition& d) {
  using algebra::Extents;
  const Extents shape = d.arg("x").shape();
  const int64_t groups = init.hidden_size / init.group();
  // Groups have a dimension of their own.
  auto grouped = [&](const Expr& e) {
    if (groups == 1) return e;
    Extents split(e.shape().begin(), e.shape().end() - 1);
    split.push_back(groups);
    split.push_back(init.group());
    return reshape(e, split);
  };
  Expr x = grouped(d.arg("x")), gate = grouped(d.arg("gate")), weight = grouped(d.arg("weight"));
  Expr act = init.sigmoid ? logistic(gate) : gate * logistic(gate);
  Expr normed = init.norm_before_gate ? x : x * act;
  Expr out = normed / sqrt(mean(normed * normed, -1) + init.eps) * weight;
  d.result("out", reshape(init.norm_before_gate ? out * act : out, shape));
}
FK_DEFINITION(RMSNormGated, define_rms_norm_gated);

}  // namespace
}  // namespace fk
