#include "ops/l2/gpt_oss_mlp.h"

#include "ops/register.h"

namespace fk {

GateLinear::Init GptOssMLP::router(const Init& init) {
  GateLinear::Init router = SparseMoeBlock::router(init);
  router.bias = true;
  return router;
}

FusedExperts::Init GptOssMLP::routed(const Init& init) {
  FusedExperts::Init experts = SparseMoeBlock::routed(init);
  experts.activation = "swigluoai";
  experts.swiglu_limit = init.swiglu_limit;
  experts.bias = true;
  experts.weight_format = init.experts_format;
  return experts;
}

Cost GptOssMLP::cost(const Init& init, const Workload& w) {
  return SparseMoeBlock::cost_with(init, FusedExperts::cost(routed(init), w), w);
}

std::vector<Case<GptOssMLP>> GptOssMLP::cases() {
  Init c{{.hidden_size = 64, .num_experts = 8, .top_k = 2, .intermediate_size = 48}};
  Init odd{{.hidden_size = 37, .num_experts = 5, .top_k = 3, .intermediate_size = 29}, 3.5};
  Init mxfp4{{.hidden_size = 96, .num_experts = 6, .top_k = 2, .intermediate_size = 32}, 7, "mxfp4"};
  return {
      {"one token", c, Workload::tokens(1)},
      {"odd", odd, Workload::tokens(19)},
      {"mxfp4", mxfp4, Workload::tokens(5)},
  };
}

namespace {

class ComposedGptOssMLP final : public GptOssMLP {
 public:
  ComposedGptOssMLP(const Init& init, Builder& builder)
      : GptOssMLP(init),
        router_(builder.child<GateLinear>("router", router(init))),
        choose(builder.child<TopkSoftmax>("topk",
                                          {.num_experts = init.num_experts, .top_k = init.top_k, .renormalize = true})),
        experts(builder.child<FusedExperts>("experts", routed(init))) {
    if (init.reduce_results && init.tp_size > 1)
      all_reduce.emplace(builder.child<AllReduce>("all_reduce", {.world_size = init.tp_size, .rank = init.tp_rank}));
  }

  void forward(Context& ctx, View x, View out) override {
    auto [weights, ids] = choose(ctx, router_(ctx, x));
    if (all_reduce)
      all_reduce->into(ctx, experts(ctx, x, weights, ids), out);
    else
      experts.into(ctx, x, weights, ids, out);
  }

 private:
  Op<GateLinear> router_;
  Op<TopkSoftmax> choose;
  Op<FusedExperts> experts;
  std::optional<Op<AllReduce>> all_reduce;
};

FK_COMPOSITION(GptOssMLP, ComposedGptOssMLP);

}  // namespace
}  // namespace fk
