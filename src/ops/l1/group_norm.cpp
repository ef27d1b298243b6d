#include "ops/l1/group_norm.h"

#include <cmath>

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> GroupNorm::params(const Init& init) {
  std::vector<ParamSpec> params = {{"weight", {{init.hidden_size}, init.dtype}}};
  if (init.bias) params.push_back({"bias", {{init.hidden_size}, init.dtype}});
  return params;
}

OutputSpecs GroupNorm::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs GroupNorm::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal(0.5, 1)}};
}

Cost GroupNorm::cost(const Init& init, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * init.hidden_size), size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = (n + static_cast<double>(init.hidden_size) * (init.bias ? 2 : 1)) * size,
          .written_bytes = n * size,
          .vector_flops = 6 * n};
}

Tolerance GroupNorm::tolerance(const Init& init, DType dtype) {
  // The mean can cancel most of a value.
  Tolerance t = rounding_tolerance(dtype, static_cast<double>(init.hidden_size / init.num_groups));
  return {t.relative, 2 * t.of_scale};
}

std::vector<Case<GroupNorm>> GroupNorm::cases() {
  return {{"groups of two", {.num_groups = 3, .hidden_size = 6}, Workload::tokens(1)},
          {"odd tail", {.num_groups = 5, .hidden_size = 385, .eps = 64e-5}, Workload::tokens(3)},
          {"one group, no bias", {.hidden_size = 77, .bias = false}, Workload::tokens(5)},
          {"heads", {.num_groups = 40, .hidden_size = 2560, .eps = 64e-5}, Workload::tokens(4)},
          {"many rows", {.num_groups = 4, .hidden_size = 64}, Workload::tokens(67)},
          {"large eps", {.num_groups = 2, .hidden_size = 48, .eps = 0.5}, Workload::tokens(2)},
          {"no tokens", {.num_groups = 2, .hidden_size = 16}, Workload::tokens(0)}};
}

namespace {

class GroupNormOracle final : public GroupNorm {
 public:
  using GroupNorm::GroupNorm;

  void forward(Context&, View x, View out) override {
    const int64_t n = init_.hidden_size / init_.num_groups;
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t first = 0; first < init_.hidden_size; first += n) {
        double mean = 0, squares = 0;
        for (int64_t i = first; i < first + n; ++i) mean += get(x, t, i) / static_cast<double>(n);
        for (int64_t i = first; i < first + n; ++i) squares += (get(x, t, i) - mean) * (get(x, t, i) - mean);
        double scale = 1 / std::sqrt(squares / static_cast<double>(n) + init_.eps);
        for (int64_t i = first; i < first + n; ++i)
          set(out, (get(x, t, i) - mean) * scale * get(weight(), i) + (init_.bias ? get(*bias(), i) : 0), t, i);
      }
  }
};

FK_OPERATOR(GroupNorm, GroupNormOracle);

void define_group_norm(const GroupNorm::Init& init, Definition& d) {
  const int64_t groups = init.num_groups, n = init.hidden_size / groups;
  Expr x = reshape(d.arg("x"), {d.arg("x").size(0), groups, n});
  Expr centred = x - mean(x, -1);
  Expr out = centred / sqrt(mean(centred * centred, -1) + init.eps) * reshape(d.arg("weight"), {groups, n});
  if (init.bias) out = out + reshape(d.arg("bias"), {groups, n});
  d.result("out", reshape(out, d.arg("x").shape()));
}
FK_DEFINITION(GroupNorm, define_group_norm);

}  // namespace
}  // namespace fk
