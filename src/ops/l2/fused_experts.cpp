#include "ops/l2/fused_experts.h"

#include "core/error.h"
#include "ops/formats/weight_format.h"
#include "ops/l1/expert_choice.h"
#include "ops/l1/gelu_and_mul.h"
#include "ops/l1/moe_align.h"
#include "ops/l1/moe_grouped_gemm.h"
#include "ops/l1/moe_sum.h"
#include "ops/l1/scale_rows.h"
#include "ops/l1/silu_and_mul.h"
#include "ops/l1/swigluoai_and_mul.h"
#include "ops/l2/tensor_parallel.h"
#include "ops/register.h"

namespace fk {
namespace {
int64_t expert_share(const FusedExperts::Init& init) {
  return rank_share(init.intermediate_size, init.tp_size, "intermediate features of an expert");
}

// Gate and up, unless they alternate row by row.
std::vector<int64_t> parts_of_w13(const FusedExperts::Init& init) {
  if (init.activation == "swigluoai") return {2 * expert_share(init)};
  return {expert_share(init), expert_share(init)};
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
  auto features = static_cast<int64_t>(F);
  double expert = matrix_bytes(init.weight_format, 2 * features, init.hidden_size, w.dtype) +
                  matrix_bytes(init.weight_format, init.hidden_size, features, w.dtype) +
                  (init.bias ? size * (2 * F + D) : 0);
  return {.read_bytes = touched * expert + size * T * D + 8 * pairs,
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
      {"many tokens",
       {.num_experts = 3, .top_k = 2, .hidden_size = 136, .intermediate_size = 72},
       Workload::tokens(40)},
      {"very many tokens",
       {.num_experts = 2, .top_k = 2, .hidden_size = 72, .intermediate_size = 136},
       Workload::tokens(310)},
      {"one of two ranks",
       {.num_experts = 4, .top_k = 2, .hidden_size = 48, .intermediate_size = 64, .tp_size = 2},
       Workload::tokens(3)},
      {"biases, alternating gate and up",
       {.num_experts = 5,
        .top_k = 2,
        .hidden_size = 40,
        .intermediate_size = 27,
        .activation = "swigluoai",
        .bias = true},
       Workload::tokens(17)},
      {"many tokens, alternating gate and up",
       {.num_experts = 3,
        .top_k = 2,
        .hidden_size = 72,
        .intermediate_size = 136,
        .activation = "swigluoai",
        .bias = true},
       Workload::tokens(40)},
      {"gelu",
       {.num_experts = 5, .top_k = 2, .hidden_size = 40, .intermediate_size = 27, .activation = "gelu_pytorch_tanh"},
       Workload::tokens(17)},
      {"one token, gelu",
       {.num_experts = 9, .top_k = 8, .hidden_size = 56, .intermediate_size = 72, .activation = "gelu_pytorch_tanh"},
       Workload::tokens(1)},
      {"one token, biases, alternating gate and up",
       {.num_experts = 4,
        .top_k = 3,
        .hidden_size = 168,
        .intermediate_size = 280,
        .activation = "swigluoai",
        .bias = true},
       Workload::tokens(1)},
      {"one token, more experts than warps",
       {.num_experts = 24, .top_k = 19, .hidden_size = 136, .intermediate_size = 40},
       Workload::tokens(1)},
      {"scaled inputs",
       {.num_experts = 6, .top_k = 1, .hidden_size = 40, .intermediate_size = 27, .apply_router_weight_on_input = true},
       Workload::tokens(17)},
      {"mxfp4",
       {.num_experts = 4,
        .top_k = 2,
        .hidden_size = 64,
        .intermediate_size = 32,
        .activation = "swigluoai",
        .bias = true,
        .weight_format = "mxfp4"},
       Workload::tokens(6)},
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
                                                  .output_sizes = parts_of_w13(init),
                                                  .input_per_token = true,
                                                  .bias = init.bias,
                                                  .weight_format = init.weight_format,
                                                  .dtype = init.dtype})),
        w2(builder.child<MoeGroupedGemm>("w2", {.num_experts = init.num_experts,
                                                .top_k = init.top_k,
                                                .in_features = expert_share(init),
                                                .out_features = init.hidden_size,
                                                .bias = init.bias && init.tp_rank == 0,
                                                .weight_format = init.weight_format,
                                                .dtype = init.dtype})),
        sum(builder.child<MoeSum>("sum", {.top_k = init.top_k})) {
    if (init.apply_router_weight_on_input) {
      if (init.top_k != 1)
        throw Error("Weights of {} experts cannot multiply the input of a token; use top_k 1.", init.top_k);
      scale_input.emplace(builder.child<ScaleRows>("scale_input", {}));
    }
    if (init.bias && init.tp_size > 1 && parts_of_w13(init).size() > 1)
      throw Error("Biases of gate and up side by side cannot be divided over {} ranks; use tp_size 1.", init.tp_size);
    if (init.activation == "silu")
      silu.emplace(builder.child<SiluAndMul>("act_fn", {}));
    else if (init.activation == "gelu_pytorch_tanh")
      gelu.emplace(builder.child<GeluAndMul>("act_fn", {.approximate = "tanh"}));
    else if (init.activation == "swigluoai")
      swigluoai.emplace(builder.child<SwigluOAIAndMul>("act_fn", {.limit = init.swiglu_limit}));
    else
      throw Error("Experts with the activation '{}' are not known; known are silu, gelu_pytorch_tanh and swigluoai.",
                  init.activation);
  }

  void forward(Context& ctx, View x, View topk_weights, View topk_ids, View out) override {
    auto [sorted, offsets] = align(ctx, topk_ids);
    View gate_up = w13(ctx, scale_input ? (*scale_input)(ctx, x, topk_weights) : x, sorted, offsets);
    View activated = silu ? (*silu)(ctx, gate_up) : gelu ? (*gelu)(ctx, gate_up) : (*swigluoai)(ctx, gate_up);
    if (scale_input) return w2.into(ctx, activated, sorted, offsets, out);
    View down = w2(ctx, activated, sorted, offsets);
    sum.into(ctx, down.reshape({x.size(0), init_.top_k, init_.hidden_size}), topk_weights, out);
  }

 private:
  Op<MoeAlign> align;
  Op<MoeGroupedGemm> w13;
  Op<MoeGroupedGemm> w2;
  // One of the three.
  std::optional<Op<SiluAndMul>> silu;
  std::optional<Op<GeluAndMul>> gelu;
  std::optional<Op<SwigluOAIAndMul>> swigluoai;
  Op<MoeSum> sum;
  std::optional<Op<ScaleRows>> scale_input;
};

FK_COMPOSITION(FusedExperts, ComposedFusedExperts);

}  // namespace
}  // namespace fk
