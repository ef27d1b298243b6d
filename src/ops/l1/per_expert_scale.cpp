#include "ops/l1/per_expert_scale.h"

#include "ops/algebra/definition.h"
#include "ops/l1/expert_choice.h"
#include "ops/register.h"
#include "ops/routing.h"

namespace fk {

std::vector<ParamSpec> PerExpertScale::params(const Init& init) {
  return {{"weight", {{init.num_experts}, init.dtype}}};
}

OutputSpecs PerExpertScale::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs PerExpertScale::inputs(const Init& init, const Workload& w) {
  check_top_k(init.num_experts, init.top_k);
  DType weights = w.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  Shape shape{w.num_tokens(), init.top_k};
  return {InputSpec{{shape, weights}, Generator::uniform(0, 1)},
          InputSpec{{shape, DType::kI32}, Generator::routing(Generator::Kind::kTopkIds, init.num_experts, init.top_k)}};
}

Cost PerExpertScale::cost(const Init& init, const Workload& w) {
  auto pairs = static_cast<double>(w.num_tokens() * init.top_k),
       touched = static_cast<double>(experts_touched(init.num_experts, init.top_k, w.num_tokens()));
  return {.read_bytes = 8 * pairs + touched * static_cast<double>(dtype_size(init.dtype)),
          .written_bytes = 4 * pairs,
          .vector_flops = pairs};
}

Tolerance PerExpertScale::tolerance(const Init&, DType) { return rounding_tolerance(DType::kF32); }

std::vector<Case<PerExpertScale>> PerExpertScale::cases() {
  return {{"one expert", {.num_experts = 1, .top_k = 1}, Workload::tokens(1)},
          {"odd", {.num_experts = 61, .top_k = 5}, Workload::tokens(19)},
          {"many experts", {.num_experts = 128, .top_k = 8}, Workload::tokens(70)},
          {"no tokens", {.num_experts = 8, .top_k = 2}, Workload::tokens(0)}};
}

namespace {

class PerExpertScaleOracle final : public PerExpertScale {
 public:
  using PerExpertScale::PerExpertScale;

  void forward(Context&, View topk_weights, View topk_ids, View out) override {
    for (int64_t t = 0; t < topk_ids.size(0); ++t)
      for (int64_t j = 0; j < topk_ids.size(1); ++j) {
        auto expert = static_cast<int64_t>(get(topk_ids, t, j));
        set(out, get(topk_weights, t, j) * get(weight(), expert), t, j);
      }
  }
};

FK_OPERATOR(PerExpertScale, PerExpertScaleOracle);

void define_per_expert_scale(const PerExpertScale::Init&, Definition& d) {
  d.result("out", d.arg("topk_weights") * gather(d.arg("weight"), d.arg("topk_ids")));
}
FK_DEFINITION(PerExpertScale, define_per_expert_scale);

}  // namespace
}  // namespace fk
