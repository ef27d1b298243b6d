// The experts of a block on CUDA for a step of one sequence.
#include "backend/cuda/experts/one_token.h"
#include "ops/l1/swigluoai_and_mul.h"
#include "ops/l2/fused_experts.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class ExpertsOfOneToken final : public FusedExperts {
 public:
  using FusedExperts::FusedExperts;

  std::string_view refuse(Args args) const override {
    const View &x = *args[0], &weights = *args[1], &ids = *args[2], &out = *args[3];
    if (x.size(0) != 1) return "it takes one token";
    if (init_.apply_router_weight_on_input) return "it does not scale inputs";
    if (!init_.weight_format.empty()) return "it multiplies bf16 and f16";
    if (x.dtype() != init_.dtype || out.dtype() != init_.dtype) return "x must have the dtype of the weights";
    if (weights.dtype() != DType::kF32 || ids.dtype() != DType::kI32) return "weights are f32 and ids i32";
    for (const OptView& v : args)
      if (!v->rows_contiguous()) return "rows must be contiguous";
    return one_token_experts_refusal(call(x, weights, ids, nullptr, out));
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    gate_up_ = weight("w13.weight");
    down_ = weight("w2.weight");
    if (!init_.bias) return;
    gate_up_bias_ = weight("w13.bias");
    if (init_.tp_rank == 0) down_bias_ = weight("w2.bias");  // only the first rank adds it
  }

  void forward(Context& ctx, View x, View topk_weights, View topk_ids, View out) override {
    View between = ctx.arena.make({{init_.top_k, features()}, x.dtype()});
    run_one_token_experts(call(x, topk_weights, topk_ids, between.data(), out), ctx.stream);
  }

 private:
  int64_t features() const { return init_.intermediate_size / init_.tp_size; }
  static const void* start(const OptView& v) { return v ? v->data() : nullptr; }

  ExpertGate gate() const {
    if (init_.activation == "silu") return ExpertGate::kSilu;
    return init_.activation == "swigluoai" ? ExpertGate::kSwigluOAI : ExpertGate::kGeluTanh;
  }

  OneTokenExperts call(const View& x, const View& weights, const View& ids, void* between, const View& out) const {
    return {.x = x.data(),
            .ids = static_cast<const int32_t*>(ids.data()),
            .weights = static_cast<const float*>(weights.data()),
            .gate_up = start(gate_up_),
            .gate_up_bias = start(gate_up_bias_),
            .down = start(down_),
            .down_bias = start(down_bias_),
            .between = between,
            .out = out.data(),
            .experts = static_cast<int>(init_.num_experts),
            .top_k = static_cast<int>(init_.top_k),
            .hidden = static_cast<int>(init_.hidden_size),
            .features = static_cast<int>(features()),
            .gate = gate(),
            .alpha = static_cast<float>(SwigluOAIAndMul::Init{}.alpha),
            .limit = static_cast<float>(init_.swiglu_limit),
            .dtype = x.dtype()};
  }

  OptView gate_up_, gate_up_bias_, down_, down_bias_;
};

FK_FUSED_IMPLEMENTATION(FusedExperts, ExpertsOfOneToken, "cuda.one_token", DeviceKind::kCuda, 110, nullptr);

}  // namespace
}  // namespace fk::cuda
