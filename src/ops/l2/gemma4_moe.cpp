#include "ops/l2/gemma4_moe.h"

#include <cmath>

#include "ops/l1/per_expert_scale.h"
#include "ops/l1/rms_norm.h"
#include "ops/l1/scale_add.h"
#include "ops/register.h"

namespace fk {

SparseMoeBlockInit Gemma4MoE::common(const Init& init) {
  return {.hidden_size = init.hidden_size,
          .num_experts = init.num_experts,
          .top_k = init.top_k,
          .intermediate_size = init.intermediate_size,
          .tp_size = init.tp_size,
          .tp_rank = init.tp_rank,
          .reduce_results = init.reduce_results,
          .dtype = init.dtype};
}

FusedExperts::Init Gemma4MoE::routed(const Init& init) {
  FusedExperts::Init experts = SparseMoeBlock::routed(common(init));
  experts.activation = "gelu_pytorch_tanh";
  return experts;
}

Inputs Gemma4MoE::inputs(const Init& init, const Workload& w) {
  Inputs inputs = SparseMoeBlock::inputs(common(init), w);
  inputs.push_back(inputs[0]);
  return inputs;
}

Cost Gemma4MoE::cost(const Init& init, const Workload& w) {
  Cost cost = SparseMoeBlock::cost_with(common(init), FusedExperts::cost(routed(init), w), w);
  auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size),
       E = static_cast<double>(init.num_experts), size = static_cast<double>(dtype_size(w.dtype));
  cost.read_bytes += size * (T * D + D + E);  // the residual, the weight of its norm, the numbers of the experts
  cost.vector_flops += 4 * T * D;
  return cost;
}

Tolerance Gemma4MoE::tolerance(const Init& init, DType dtype) { return SparseMoeBlock::tolerance(common(init), dtype); }

std::vector<Case<Gemma4MoE>> Gemma4MoE::cases() {
  return {
      {"one token", {.hidden_size = 64, .num_experts = 16, .top_k = 4, .intermediate_size = 24}, Workload::tokens(1)},
      {"odd", {.hidden_size = 37, .num_experts = 5, .top_k = 2, .intermediate_size = 29}, Workload::tokens(19)},
      {"one of two ranks",
       {.hidden_size = 48,
        .num_experts = 4,
        .top_k = 2,
        .intermediate_size = 64,
        .rms_norm_eps = 1e-3,
        .tp_size = 2,
        .reduce_results = false},
       Workload::tokens(3)},
  };
}

namespace {

class ComposedGemma4MoE final : public Gemma4MoE {
 public:
  ComposedGemma4MoE(const Init& init, Builder& builder)
      : Gemma4MoE(init),
        norm(builder.child<RMSNorm>("router.norm",
                                    {.hidden_size = init.hidden_size, .eps = init.rms_norm_eps, .dtype = init.dtype})),
        proj(builder.child<GateLinear>("router.proj", SparseMoeBlock::router(common(init)))),
        // Checkpoints scale what the router reads; its logits are fewer.
        scale_logits(builder.child<ScaleAdd>("router.scale_logits",
                                             {.scale = 1 / std::sqrt(static_cast<double>(init.hidden_size))})),
        choose(builder.child<TopkSoftmax>("router.topk",
                                          {.num_experts = init.num_experts, .top_k = init.top_k, .renormalize = true})),
        per_expert_scale(builder.child<PerExpertScale>(
            "router.scale_weights", {.num_experts = init.num_experts, .top_k = init.top_k, .dtype = init.dtype})),
        experts(builder.child<FusedExperts>("experts", routed(init))) {
    if (init.reduce_results && init.tp_size > 1)
      all_reduce.emplace(builder.child<AllReduce>("all_reduce", {.world_size = init.tp_size, .rank = init.tp_rank}));
  }

  void forward(Context& ctx, View x, View residual, View out) override {
    View logits = proj(ctx, std::get<0>(norm(ctx, residual, OptView())));
    auto [weights, ids] = choose(ctx, scale_logits(ctx, logits, OptView()));
    View scaled = per_expert_scale(ctx, weights, ids);
    View sum = all_reduce ? ctx.arena.make(out.spec()) : out;
    experts.into(ctx, x, scaled, ids, sum);
    if (all_reduce) all_reduce->into(ctx, sum, out);
  }

 private:
  Op<RMSNorm> norm;  // its weight is the router's scale
  Op<GateLinear> proj;
  Op<ScaleAdd> scale_logits;
  Op<TopkSoftmax> choose;
  Op<PerExpertScale> per_expert_scale;
  Op<FusedExperts> experts;
  std::optional<Op<AllReduce>> all_reduce;
};

FK_COMPOSITION(Gemma4MoE, ComposedGemma4MoE);

}  // namespace
}  // namespace fk
