// The common part of the mixture-of-experts blocks of all families: a router, the experts that it chooses, and in some
// families an expert that all tokens use.
#pragma once

#include "ops/l1/allreduce.h"
#include "ops/l1/sigmoid_mul_add.h"
#include "ops/l1/topk_softmax.h"
#include "ops/l2/fused_experts.h"
#include "ops/l2/gate_linear.h"
#include "ops/l2/llama_mlp.h"
#include "ops/op.h"

namespace fk {

struct SparseMoeBlockInit {
  int64_t hidden_size = 0;
  int64_t num_experts = 0;
  int64_t top_k = 1;                            // experts of a token
  int64_t intermediate_size = 0;                // of an expert
  bool renormalize = true;                      // the weights of a token's experts add up to one
  int64_t shared_expert_intermediate_size = 0;  // 0: there is no shared expert
  int64_t tp_size = 1;                          // ranks the intermediate sizes are divided over
  int64_t tp_rank = 0;                          // which of them this is
  bool reduce_results = true;                   // add up the ranks' outputs; else each keeps its part
  DType dtype = DType::kBF16;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("hidden_size", hidden_size);
    v("num_experts", num_experts);
    v("top_k", top_k);
    v("intermediate_size", intermediate_size);
    v("renormalize", renormalize);
    v("shared_expert_intermediate_size", shared_expert_intermediate_size);
    v("tp_size", tp_size);
    v("tp_rank", tp_rank);
    v("reduce_results", reduce_results);
    v("dtype", dtype);
  }
};

class SparseMoeBlock : public Operator {
 public:
  static constexpr int kLevel = 2;
  using Init = SparseMoeBlockInit;

  // x [T, D] -> out [T, D].
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit SparseMoeBlock(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init&, Args given) { return {given[0]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& w);
  static Cost cost(const Init& init, const Workload& w);
  // The same with experts of another cost.
  static Cost cost_with(const Init& init, Cost experts, const Workload& w);
  static Tolerance tolerance(const Init& init, DType dtype);

  static GateLinear::Init router(const Init& init);
  static FusedExperts::Init routed(const Init& init);
  static MlpBlockInit shared(const Init& init);

 protected:
  const Init init_;
};

// T: the family's operator.
template <class T>
class ComposedSparseMoeBlock final : public T {
 public:
  ComposedSparseMoeBlock(const SparseMoeBlockInit& init, Builder& builder)
      : T(init),
        gate(builder.child<GateLinear>("gate", T::router(init))),
        choose(builder.child<TopkSoftmax>(
            "topk", {.num_experts = init.num_experts, .top_k = init.top_k, .renormalize = init.renormalize})),
        experts(builder.child<FusedExperts>("experts", T::routed(init))) {
    if (init.shared_expert_intermediate_size > 0) {
      shared_expert.emplace(builder.child<LlamaMLP>("shared_expert", T::shared(init)));
      shared_expert_gate.emplace(builder.child<GateLinear>(
          "shared_expert_gate", {.input_size = init.hidden_size, .output_size = 1, .dtype = init.dtype}));
      add_shared.emplace(builder.child<SigmoidMulAdd>("add_shared", {}));
    }
    if (init.reduce_results && init.tp_size > 1)
      all_reduce.emplace(builder.child<AllReduce>("all_reduce", {.world_size = init.tp_size, .rank = init.tp_rank}));
  }

  void forward(Context& ctx, View x, View out) override {
    auto [weights, ids] = choose(ctx, gate(ctx, x));
    View sum = all_reduce ? ctx.arena.make(out.spec()) : out;
    if (shared_expert) {
      View routed = experts(ctx, x, weights, ids);
      add_shared->into(ctx, (*shared_expert)(ctx, x), (*shared_expert_gate)(ctx, x), routed, sum);
    } else {
      experts.into(ctx, x, weights, ids, sum);
    }
    if (all_reduce) all_reduce->into(ctx, sum, out);
  }

 private:
  Op<GateLinear> gate;
  Op<TopkSoftmax> choose;
  Op<FusedExperts> experts;
  std::optional<Op<LlamaMLP>> shared_expert;
  std::optional<Op<GateLinear>> shared_expert_gate;
  std::optional<Op<SigmoidMulAdd>> add_shared;
  std::optional<Op<AllReduce>> all_reduce;
};

}  // namespace fk
