// The common part of the mixture-of-experts blocks whose router scores experts, corrects the scores by a learned bias
// and may limit the choice to groups, and which have an expert without a gate that all tokens use.
#pragma once

#include "ops/l1/grouped_topk.h"
#include "ops/l1/scale_add.h"
#include "ops/l2/sparse_moe_block.h"

namespace fk {

struct GroupedMoeBlockInit : SparseMoeBlockInit {
  int64_t num_expert_group = 1;
  int64_t topk_group = 1;
  double routed_scaling_factor = 1;  // of the weights of a token's experts

  template <class Visitor>
  void visit(Visitor&& v) {
    SparseMoeBlockInit::visit(v);
    v("num_expert_group", num_expert_group);
    v("topk_group", topk_group);
    v("routed_scaling_factor", routed_scaling_factor);
  }
};

class GroupedMoeBlock : public Operator {
 public:
  static constexpr int kLevel = 2;
  using Init = GroupedMoeBlockInit;

  // x [T, D] -> out [T, D].
  static constexpr std::array kArgs = SparseMoeBlock::kArgs;

  explicit GroupedMoeBlock(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  // The correction of the scores, which are f32 like the logits of the router.
  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init&, Args given) { return {given[0]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& w);
  static Cost cost(const Init& init, const Workload& w);
  static Tolerance tolerance(const Init& init, DType dtype) { return SparseMoeBlock::tolerance(init, dtype); }

  static GroupedTopk::Init choice(const Init& init);

 protected:
  const View& e_score_correction_bias() const { return param(0); }
  const Init init_;
};

// T: the family's operator.
template <class T>
class ComposedGroupedMoeBlock final : public T {
 public:
  ComposedGroupedMoeBlock(const GroupedMoeBlockInit& init, Builder& builder)
      : T(init),
        gate(builder.child<GateLinear>("gate", SparseMoeBlock::router(init))),
        choose(builder.child<GroupedTopk>("topk", T::choice(init))),
        experts(builder.child<FusedExperts>("experts", SparseMoeBlock::routed(init))) {
    if (init.shared_expert_intermediate_size > 0) {
      shared_experts.emplace(builder.child<LlamaMLP>("shared_experts", SparseMoeBlock::shared(init)));
      add_shared.emplace(builder.child<ScaleAdd>("add_shared", {}));
    }
    if (init.reduce_results && init.tp_size > 1)
      all_reduce.emplace(builder.child<AllReduce>("all_reduce", {.world_size = init.tp_size, .rank = init.tp_rank}));
  }

  void forward(Context& ctx, View x, View out) override {
    auto [weights, ids] = choose(ctx, gate(ctx, x), this->e_score_correction_bias());
    View sum = all_reduce ? ctx.arena.make(out.spec()) : out;
    if (shared_experts)
      add_shared->into(ctx, (*shared_experts)(ctx, x), experts(ctx, x, weights, ids), sum);
    else
      experts.into(ctx, x, weights, ids, sum);
    if (all_reduce) all_reduce->into(ctx, sum, out);
  }

 private:
  Op<GateLinear> gate;
  Op<GroupedTopk> choose;
  Op<FusedExperts> experts;
  std::optional<Op<LlamaMLP>> shared_experts;
  std::optional<Op<ScaleAdd>> add_shared;
  std::optional<Op<AllReduce>> all_reduce;
};

}  // namespace fk
