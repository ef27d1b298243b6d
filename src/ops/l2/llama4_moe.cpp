#include "ops/l2/llama4_moe.h"

#include "ops/l1/grouped_topk.h"
#include "ops/l1/scale_add.h"
#include "ops/register.h"

namespace fk {
namespace {

FusedExperts::Init scaled_experts(const SparseMoeBlockInit& init) {
  FusedExperts::Init experts = SparseMoeBlock::routed(init);
  experts.apply_router_weight_on_input = true;
  return experts;
}

}  // namespace

Cost Llama4MoE::cost(const Init& init, const Workload& w) {
  Cost cost = SparseMoeBlock::cost(init, w);
  // The gate of the shared expert, which is not here, is a row of D.
  auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size);
  cost.read_bytes -= D * static_cast<double>(dtype_size(w.dtype));
  cost.matrix_flops -= 2 * T * D;
  cost.vector_flops -= T * D;
  return cost;
}

std::vector<Case<Llama4MoE>> Llama4MoE::cases() {
  return {
      {"one token",
       {.hidden_size = 64,
        .num_experts = 16,
        .top_k = 1,
        .intermediate_size = 24,
        .shared_expert_intermediate_size = 24},
       Workload::tokens(1)},
      {"odd",
       {.hidden_size = 37,
        .num_experts = 5,
        .top_k = 1,
        .intermediate_size = 29,
        .shared_expert_intermediate_size = 29},
       Workload::tokens(19)},
      {"one of two ranks",
       {.hidden_size = 48,
        .num_experts = 4,
        .top_k = 1,
        .intermediate_size = 64,
        .shared_expert_intermediate_size = 64,
        .tp_size = 2,
        .reduce_results = false},
       Workload::tokens(3)},
  };
}

namespace {

class ComposedLlama4MoE final : public Llama4MoE {
 public:
  ComposedLlama4MoE(const Init& init, Builder& builder)
      : Llama4MoE(init),
        router(builder.child<GateLinear>("router", SparseMoeBlock::router(init))),
        choose(builder.child<GroupedTopk>(
            "topk", {.num_experts = init.num_experts, .top_k = init.top_k, .scoring_func = "sigmoid"})),
        experts(builder.child<FusedExperts>("experts", scaled_experts(init))),
        shared_expert(builder.child<LlamaMLP>("shared_expert", SparseMoeBlock::shared(init))),
        add_shared(builder.child<ScaleAdd>("add_shared", {})) {
    if (init.reduce_results && init.tp_size > 1)
      all_reduce.emplace(builder.child<AllReduce>("all_reduce", {.world_size = init.tp_size, .rank = init.tp_rank}));
  }

  void forward(Context& ctx, View x, View out) override {
    auto [weights, ids] = choose(ctx, router(ctx, x));
    View sum = all_reduce ? ctx.arena.make(out.spec()) : out;
    add_shared.into(ctx, experts(ctx, x, weights, ids), shared_expert(ctx, x), sum);
    if (all_reduce) all_reduce->into(ctx, sum, out);
  }

 private:
  Op<GateLinear> router;
  Op<GroupedTopk> choose;
  Op<FusedExperts> experts;
  Op<LlamaMLP> shared_expert;
  Op<ScaleAdd> add_shared;
  std::optional<Op<AllReduce>> all_reduce;
};

FK_COMPOSITION(Llama4MoE, ComposedLlama4MoE);

}  // namespace
}  // namespace fk
