// BertLayer on CUDA for many tokens: norms add the residual and write nothing but their result; gelu is part of its
// product or, for sizes that this product does not support, works in place. Products that add the residual were not
// faster (docs/results/h200-families.md).
#include "ops/l3/bert_layer.h"

#include "backend/cuda/attention/prefill_wgmma.h"
#include "backend/cuda/device/capabilities.h"
#include "backend/cuda/l1/gelu_rows.h"
#include "backend/cuda/l1/layer_norm.h"
#include "backend/cuda/matmul/matmul.h"
#include "backend/cuda/matmul/stream_tiles.h"
#include "backend/cuda/matmul/wgmma_gelu.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class FusedBertLayer final : public BertLayer {
 public:
  using BertLayer::BertLayer;

  std::string_view refuse(Args args) const override {
    const View &x = *args[0], &out = *args[2];
    if (init_.hidden_act != "gelu") return "it knows gelu only";
    if (x.dtype() != init_.attention.dtype || out.dtype() != x.dtype()) return "x must have the dtype of the weights";
    if (!x.rows_contiguous() || !out.rows_contiguous()) return "rows must be contiguous";
    if (x.size(0) <= kMostTiledRows) return "products of few rows are streamed faster";
    if (!can_norm_sum(x) || !can_norm_sum(out)) return "rows must fit into the registers of a warp";
    // Only the shapes of intermediate tensors matter here.
    auto rows_of = [&](int64_t width) { return View(nullptr, Shape{x.size(0), width}, x.dtype(), x.device()); };
    const View qkv = rows_of(3 * hidden()), between = rows_of(hidden()), wide = rows_of(init_.intermediate_size);
    if (std::string_view why = prefill_wgmma_refusal(attention_call(qkv, *args[1], between)); !why.empty()) return why;
    if (std::string_view why = qkv_.refusal(x, qkv); !why.empty()) return why;
    if (std::string_view why = attended_.refusal(between, between); !why.empty()) return why;
    if (std::string_view why = wide_.refusal(between, wide); !why.empty()) return why;
    return narrow_.refusal(wide, between);
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    qkv_.bind("attention.self.qkv_proj", weight);
    attended_.bind("attention.output.dense", weight);
    attended_norm_.bind("attention.output.LayerNorm", weight);
    wide_.bind("intermediate.dense", weight);
    narrow_.bind("output.dense", weight);
    norm_.bind("output.LayerNorm", weight);
  }

  void forward(Context& ctx, View hidden_states, View cu_seqlens, View out) override {
    auto rows_of = [&](int64_t width) {
      return ctx.arena.make({{hidden_states.size(0), width}, hidden_states.dtype()});
    };
    const double eps = init_.attention.layer_norm_eps;
    View qkv = rows_of(3 * hidden()), attended = rows_of(hidden()), sum = rows_of(hidden()), normed = rows_of(hidden());
    qkv_.run(ctx, hidden_states, qkv);
    attention_prefill_wgmma(attention_call(qkv, cu_seqlens, attended), ctx.stream);
    attended_.run(ctx, attended, sum);
    norm_of_sum(sum, hidden_states, attended_norm_.weight, attended_norm_.bias, eps, normed, ctx.stream);
    View wide = rows_of(init_.intermediate_size);
    if (wide_.gelu_refusal(normed, wide).empty()) {
      wide_.run_gelu(ctx, normed, wide);
    } else {
      wide_.run(ctx, normed, wide);
      gelu_in_place(wide, ctx.stream);
    }
    narrow_.run(ctx, wide, sum);
    norm_of_sum(sum, normed, norm_.weight, norm_.bias, eps, out, ctx.stream);
  }

 private:
  struct Part {
    void bind(const std::string& path, const Operator::PartWeight& find) {
      weight = find(path + ".weight");
      bias = find(path + ".bias");
    }
    // refuse() may be called before weights are bound.
    std::string_view refusal(const View& x, const View& out) const {
      if (weight.data() == nullptr) return {};
      return cublaslt_refusal(problem_of(x, weight, /*bias=*/true, out), operands(x, out));
    }
    void run(Context& ctx, const View& x, const View& out) {
      plans.run(problem_of(x, weight, /*bias=*/true, out), operands(x, out), ctx.stream);
    }
    // The product with gelu after it.
    std::string_view gelu_refusal(const View& x, const View& out) const {
      return wgmma_gelu_refusal(problem_of(x, weight, /*bias=*/true, out), operands(x, out));
    }
    void run_gelu(Context& ctx, const View& x, const View& out) const {
      multiply_wgmma_gelu(problem_of(x, weight, /*bias=*/true, out), operands(x, out), ctx.stream);
    }
    MatmulOperands operands(const View& x, const View& out) const {
      return {.x = x.data(), .weight = weight.data(), .bias = bias.data(), .out = out.data()};
    }

    View weight, bias;
    CublasLtPlans plans;
  };

  int64_t hidden() const { return init_.attention.hidden_size; }

  AttentionCall attention_call(const View& qkv, const View& cu_seqlens, const View& out) const {
    const EncoderOnlyAttention::Init core = BertAttention::core(init_.attention);
    auto heads = [&](const View& rows) { return rows.split_last(core.num_heads, core.head_size); };
    return prefill_call(EncoderOnlyAttention::core(core), heads(qkv.narrow(1, 0, hidden())),
                        heads(qkv.narrow(1, hidden(), hidden())), heads(qkv.narrow(1, 2 * hidden(), hidden())),
                        cu_seqlens, cu_seqlens, OptView(), heads(out));
  }

  Part qkv_, attended_, attended_norm_, wide_, narrow_, norm_;
};

FK_FUSED_IMPLEMENTATION(BertLayer, FusedBertLayer, "cuda.fused_layer", DeviceKind::kCuda, 100, wgmma_unavailable);

}  // namespace
}  // namespace fk::cuda
