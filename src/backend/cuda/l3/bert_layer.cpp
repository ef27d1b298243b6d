// BertLayer on CUDA for many tokens: four products, of which that of the wide layer ends with bias and gelu, attention,
// and two norms that add the residual on the way.
#include "ops/l3/bert_layer.h"

#include "backend/cuda/attention/prefill_wgmma.h"
#include "backend/cuda/device/capabilities.h"
#include "backend/cuda/experts/wgmma.h"
#include "backend/cuda/l1/layer_norm.h"
#include "backend/cuda/matmul/matmul.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class FusedBertLayer final : public BertLayer {
 public:
  using BertLayer::BertLayer;

  std::string_view refuse(Args args) const override {
    const View &x = *args[0], &out = *args[2];
    if (init_.hidden_act != "gelu") return "it knows gelu only";
    if (x.dtype() != DType::kBF16 || out.dtype() != DType::kBF16 || init_.attention.dtype != DType::kBF16)
      return "it computes in bf16";
    if (!x.rows_contiguous() || !out.rows_contiguous()) return "rows must be contiguous";
    if (!can_add_and_norm(x) || !can_add_and_norm(out)) return "rows must fit into the registers of a warp";
    // Only the shapes of intermediate tensors matter here.
    auto rows_of = [&](int64_t width) { return View(nullptr, Shape{x.size(0), width}, x.dtype(), x.device()); };
    View qkv = rows_of(3 * hidden()), between = rows_of(hidden());
    if (std::string_view why = prefill_wgmma_refusal(attention_call(qkv, *args[1], between)); !why.empty()) return why;
    return experts_wgmma_refusal(wide_call(between, rows_of(init_.intermediate_size)));
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
    View qkv = rows_of(3 * hidden()), attended = rows_of(hidden()), normed = rows_of(hidden());
    qkv_.run(ctx, hidden_states, qkv);
    attention_prefill_wgmma(attention_call(qkv, cu_seqlens, attended), ctx.stream);
    View projected = rows_of(hidden());
    attended_.run(ctx, attended, projected);
    add_and_norm(projected, hidden_states, attended_norm_.weight, attended_norm_.bias, eps, normed, ctx.stream);
    View between = rows_of(init_.intermediate_size);
    experts_wgmma(wide_call(normed, between), ctx.stream);
    narrow_.run(ctx, between, projected);
    add_and_norm(projected, normed, norm_.weight, norm_.bias, eps, out, ctx.stream);
  }

 private:
  struct Part {
    void bind(const std::string& path, const Operator::PartWeight& find) {
      weight = find(path + ".weight");
      bias = find(path + ".bias");
    }
    void run(Context& ctx, const View& x, const View& out) { product.run(ctx, x, weight, bias.data(), out); }

    View weight, bias;
    Matmul product;
  };

  int64_t hidden() const { return init_.attention.hidden_size; }

  AttentionCall attention_call(const View& qkv, const View& cu_seqlens, const View& out) const {
    const EncoderOnlyAttention::Init core = BertAttention::core(init_.attention);
    auto heads = [&](const View& rows) { return rows.split_last(core.num_heads, core.head_size); };
    return prefill_call(EncoderOnlyAttention::core(core), heads(qkv.narrow(1, 0, hidden())),
                        heads(qkv.narrow(1, hidden(), hidden())), heads(qkv.narrow(1, 2 * hidden(), hidden())),
                        cu_seqlens, cu_seqlens, OptView(), heads(out));
  }

  // The product of all rows with one matrix.
  ExpertsCall wide_call(const View& x, const View& out) const {
    return {.x = x.data(),
            .weight = wide_.weight.data(),
            .bias = wide_.bias.data(),
            .out = out.data(),
            .x_stride = x.size(1),
            .out_stride = out.size(1),
            .experts = 1,
            .pairs = static_cast<int>(x.size(0)),
            .features = static_cast<int>(out.size(1)),
            .length = static_cast<int>(x.size(1)),
            .epilogue = ExpertsEpilogue::kGelu,
            .dtype = x.dtype()};
  }

  Part qkv_, attended_, attended_norm_, wide_, narrow_, norm_;
};

FK_FUSED_IMPLEMENTATION(BertLayer, FusedBertLayer, "cuda.fused_layer", DeviceKind::kCuda, 100, wgmma_unavailable);

}  // namespace
}  // namespace fk::cuda
