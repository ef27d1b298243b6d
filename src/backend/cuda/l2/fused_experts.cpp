// The experts of a block on CUDA: gate, up and activation in one pass over their weights, then down, then the sum.
#include "ops/l2/fused_experts.h"

#include "backend/cuda/experts/stream.h"
#include "backend/cuda/experts/wgmma.h"
#include "backend/cuda/experts/wgmma_in_order.h"
#include "backend/cuda/l1/sort_pairs.h"
#include "backend/cuda/l1/weighted_sum.h"
#include "backend/cuda/quantised/expert_product.h"
#include "ops/l1/swigluoai_and_mul.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

void multiply_experts(const ExpertsCall& call, void* stream) {
  if (experts_wgmma_refusal(call).empty())
    experts_wgmma(call, stream);
  else
    stream_experts(call, stream);
}

class GatedExperts final : public FusedExperts {
 public:
  using FusedExperts::FusedExperts;

  std::string_view refuse(Args args) const override {
    if (init_.apply_router_weight_on_input) return "it does not scale inputs";
    if (init_.activation != "silu" && init_.activation != "swigluoai") return "it knows silu and swigluoai only";
    const View &x = *args[0], &weights = *args[1], &ids = *args[2], &out = *args[3];
    if (x.dtype() != init_.dtype || out.dtype() != init_.dtype) return "x must have the dtype of the weights";
    if (weights.dtype() != DType::kF32 || ids.dtype() != DType::kI32) return "weights are f32 and ids i32";
    for (const OptView& v : args)
      if (!v->rows_contiguous()) return "rows must be contiguous";
    if (std::string_view why = sort_pairs_refusal(init_.num_experts, ids.numel()); !why.empty()) return why;
    // Only the shape of the intermediate tensor matters here.
    View between(nullptr, Shape{ids.numel(), features()}, x.dtype(), x.device());
    if (std::string_view why = stream_experts_refusal(gate_up_call(x, between)); !why.empty()) return why;
    return stream_experts_refusal(down_call(between, between));
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    gate_up_ = weight("w13.weight");
    down_ = weight("w2.weight");
    if (!init_.weight_format.empty()) {
      gate_up_codes_.bind(init_.weight_format, gate_up_, init_.hidden_size);
      down_codes_.bind(init_.weight_format, down_, features());
    }
    if (!init_.bias) return;
    gate_up_bias_ = weight("w13.bias");
    if (init_.tp_rank == 0) down_bias_ = weight("w2.bias");  // only the first rank adds it
  }

  void forward(Context& ctx, View x, View topk_weights, View topk_ids, View out) override {
    const int64_t T = x.size(0), pairs = T * init_.top_k;
    if (T == 0) return;
    View sorted = ctx.arena.make({{pairs}, DType::kI32}),
         offsets = ctx.arena.make({{init_.num_experts + 1}, DType::kI32});
    sort_pairs(topk_ids, init_.num_experts, sorted, offsets, ctx.stream);
    auto multiply = [&](ExpertsCall call, ExpertProduct& codes) {
      call.sorted = sorted.ptr<int32_t>();
      call.offsets = offsets.ptr<int32_t>();
      if (init_.weight_format.empty())
        multiply_experts(call, ctx.stream);
      else
        codes.run(ctx, call);
    };
    View between = ctx.arena.make({{pairs, features()}, x.dtype()});
    View each = ctx.arena.make({{pairs, init_.hidden_size}, x.dtype()});
    if (in_order(x, between, each)) {
      multiply_in_order(ctx, gate_up_call(x, between), down_call(between, each), sorted, offsets);
    } else {
      multiply(gate_up_call(x, between), gate_up_codes_);
      multiply(down_call(between, each), down_codes_);
    }
    weighted_sum(each.reshape({T, init_.top_k, init_.hidden_size}), topk_weights, out, ctx.stream);
  }

 private:
  // Whether enough pairs share a matrix that ordering their rows first is worth it.
  bool in_order(const View& x, const View& between, const View& each) const {
    constexpr int64_t kPairsPerExpert = 128;  // measured with 512 and 3840
    return init_.weight_format.empty() && between.size(0) >= kPairsPerExpert * init_.num_experts &&
           experts_wgmma_refusal(gate_up_call(x, between)).empty() &&
           experts_wgmma_refusal(down_call(between, each)).empty();
  }

  // Rows of x are brought into the order of the sorted pairs, in which the rows between the products stay.
  void multiply_in_order(Context& ctx, ExpertsCall gate_up, ExpertsCall down, const View& sorted, const View& offsets) {
    View rows = ctx.arena.make({{gate_up.pairs, gate_up.length}, gate_up.dtype});
    gate_up.sorted = sorted.ptr<int32_t>();
    gather_sorted_rows(gate_up, rows.data(), ctx.stream);
    gate_up.x = rows.data();
    gate_up.x_stride = gate_up.length;
    gate_up.sorted = nullptr;
    gate_up.offsets = down.offsets = offsets.ptr<int32_t>();
    experts_wgmma_in_order(gate_up, ctx.stream);
    down.sorted = sorted.ptr<int32_t>();
    experts_wgmma_in_order(down, ctx.stream);
  }

  int64_t features() const { return init_.intermediate_size / init_.tp_size; }

  ExpertsCall call_of(const View& x, const View& weight, const OptView& bias, const View& out) const {
    return {.x = x.data(),
            .weight = weight.data(),
            .bias = bias ? bias->data() : nullptr,
            .out = out.data(),
            .x_stride = x.size(0) > 1 ? x.stride(0) : x.size(1),
            .out_stride = out.size(1),
            .experts = static_cast<int>(init_.num_experts),
            .pairs = static_cast<int>(out.size(0)),
            .top_k = static_cast<int>(init_.top_k),
            .features = static_cast<int>(out.size(1)),
            .length = static_cast<int>(x.size(1)),
            .dtype = x.dtype()};
  }
  ExpertsCall gate_up_call(const View& x, const View& between) const {
    ExpertsCall call = call_of(x, gate_up_, gate_up_bias_, between);
    call.pairs_per_row = call.top_k;
    call.epilogue = init_.activation == "silu" ? ExpertsEpilogue::kSiluAndMul : ExpertsEpilogue::kSwigluOAI;
    call.alpha = static_cast<float>(SwigluOAIAndMul::Init{}.alpha);
    call.limit = static_cast<float>(init_.swiglu_limit);
    return call;
  }
  ExpertsCall down_call(const View& between, const View& each) const {
    return call_of(between, down_, down_bias_, each);
  }

  View gate_up_, down_;
  OptView gate_up_bias_, down_bias_;
  ExpertProduct gate_up_codes_, down_codes_;  // of weights in a format
};

FK_FUSED_IMPLEMENTATION(FusedExperts, GatedExperts, "cuda.gated_products", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
