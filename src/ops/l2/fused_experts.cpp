#include "ops/l2/fused_experts.h"

#include "ops/l1/expert_choice.h"
#include "ops/l1/moe_align.h"
#include "ops/l1/moe_grouped_gemm.h"
#include "ops/l1/moe_sum.h"
#include "ops/l1/silu_and_mul.h"
#include "ops/l2/tensor_parallel.h"
#include "ops/register.h"

namespace fk {
namespace {
int64_t expert_share(const FusedExperts::Init& init) {
  return rank_share(init.intermediate_size, init.tp_size, "intermediate features of an expert");
}
}  // namespace

OutputSpecs FusedExperts::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs FusedExperts::inputs(const Init& init, const Workload& w) {
  check_top_k(init.num_experts, init.top_k);
  int64_t T = w.num_tokens();
  DType weights = w.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return {InputSpec{{{T, init.hidden_size}, w.dtype}, Generator::normal()},
          InputSpec{{{T, init.top_k}, weights}, Generator::uniform(0, 1)},
          InputSpec{{{T, init.top_k}, DType::kI32},
                    Generator::routing(Generator::Kind::kTopkIds, init.num_experts, init.top_k)}};
}

Cost FusedExperts::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), pairs = static_cast<double>(w.num_tokens() * init.top_k),
       touched = static_cast<double>(experts_touched(init.num_experts, init.top_k, w.num_tokens())),
       D = static_cast<double>(init.hidden_size), F = static_cast<double>(expert_share(init)),
       size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = size * (3 * touched * D * F + T * D) + 8 * pairs,
          .written_bytes = size * T * D,
          .matrix_flops = 6 * pairs * D * F,
          .vector_flops = 5 * pairs * F + 2 * pairs * D};
}

Tolerance FusedExperts::tolerance(const Init& init, DType dtype) {
  return composed_tolerance(dtype, static_cast<double>(init.intermediate_size));
}

std::vector<Case<FusedExperts>> FusedExperts::cases() {
  return {
      {"one token", {.num_experts = 8, .top_k = 2, .hidden_size = 64, .intermediate_size = 48}, Workload::tokens(1)},
      {"odd", {.num_experts = 5, .top_k = 3, .hidden_size = 33, .intermediate_size = 19}, Workload::tokens(21)},
      {"empty experts",
       {.num_experts = 40, .top_k = 4, .hidden_size = 40, .intermediate_size = 24},
       Workload::tokens(7)},
      {"one of two ranks",
       {.num_experts = 4, .top_k = 2, .hidden_size = 48, .intermediate_size = 64, .tp_size = 2},
       Workload::tokens(3)},
      {"no tokens", {.num_experts = 4, .top_k = 2, .hidden_size = 8, .intermediate_size = 8}, Workload::tokens(0)},
  };
}

namespace {

class ComposedFusedExperts final : public FusedExperts {
 public:
  ComposedFusedExperts(const Init& init, Builder& builder)
      : FusedExperts(init),
        align(builder.child<MoeAlign>("align", {.num_experts = init.num_experts, .top_k = init.top_k})),
        w13(builder.child<MoeGroupedGemm>("w13", {.num_experts = init.num_experts,
                                                  .top_k = init.top_k,
                                                  .in_features = init.hidden_size,
                                                  .out_features = 2 * expert_share(init),
                                                  .output_sizes = {expert_share(init), expert_share(init)},
                                                  .input_per_token = true,
                                                  .dtype = init.dtype})),
        w2(builder.child<MoeGroupedGemm>("w2", {.num_experts = init.num_experts,
                                                .top_k = init.top_k,
                                                .in_features = expert_share(init),
                                                .out_features = init.hidden_size,
                                                .dtype = init.dtype})),
        act_fn(builder.child<SiluAndMul>("act_fn", {})),
        sum(builder.child<MoeSum>("sum", {.top_k = init.top_k})) {}

  void forward(Context& ctx, View x, View topk_weights, View topk_ids, View out) override {
    auto [sorted, offsets] = align(ctx, topk_ids);
    View gate_up = w13(ctx, x, sorted, offsets);
    View down = w2(ctx, act_fn(ctx, gate_up), sorted, offsets);
    sum.into(ctx, down.reshape({x.size(0), init_.top_k, init_.hidden_size}), topk_weights, out);
  }

 private:
  Op<MoeAlign> align;
  Op<MoeGroupedGemm> w13;
  Op<MoeGroupedGemm> w2;
  Op<SiluAndMul> act_fn;
  Op<MoeSum> sum;
};

FK_COMPOSITION(FusedExperts, ComposedFusedExperts);

}  // namespace
}  // namespace fk
