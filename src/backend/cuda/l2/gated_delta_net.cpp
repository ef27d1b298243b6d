// A gated delta net on CUDA for few tokens, in three launches: the first products, what belongs to heads, the output.
#include "ops/l2/gated_delta_net.h"

#include "backend/cuda/matmul/stream_group.h"
#include "backend/cuda/recurrence/delta_net_heads.h"
#include "ops/l1/l2_norm.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class StreamedGatedDeltaNet final : public GatedDeltaNet {
 public:
  using GatedDeltaNet::GatedDeltaNet;

  std::string_view refuse(Args args) const override {
    const View& x = *args[0];
    if (!x.rows_contiguous()) return "rows must be contiguous";
    if (x.dtype() != init_.dtype) return "x must have the dtype of the weights";
    if (std::string_view why = refuse_delta_net_heads(sizes(), init_.conv_kernel_size); !why.empty()) return why;
    if (!bound_) return {};  // refuse() may be called before weights are bound
    auto shaped = [&](int64_t columns) { return View(nullptr, Shape{x.size(0), columns}, x.dtype(), x.device()); };
    const std::array groups = {
        projecting(x, shaped(2 * (init_.keys() + init_.values())), shaped(2 * init_.num_v_heads)),
        output(shaped(init_.values()), *args[1])};
    for (const StreamGroup& group : groups)
      if (std::string_view why = stream_group_refusal(group); !why.empty()) return why;
    return {};
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    qkvz_ = weight("in_proj_qkvz.weight");
    ba_ = weight("in_proj_ba.weight");
    conv_ = weight("conv1d.weight");
    a_log_ = weight("A_log");
    dt_bias_ = weight("dt_bias");
    norm_ = weight("norm.weight");
    out_ = weight("out_proj.weight");
    bound_ = true;
  }

  void forward(Context& ctx, View hidden_states, View out) override {
    auto make = [&](int64_t columns) { return ctx.arena.make({{hidden_states.size(0), columns}, init_.dtype}); };
    DeltaNetHeads heads = sizes();
    heads.qkvz = make(2 * (init_.keys() + init_.values()));
    heads.ba = make(2 * init_.num_v_heads);
    heads.out = make(init_.values());
    heads.conv_weight = conv_;
    heads.a_log = a_log_;
    heads.dt_bias = dt_bias_;
    heads.norm_weight = norm_;
    heads.state = own_state(ctx, 0);
    heads.conv_state = own_state(ctx, 1);
    stream_group(projecting(hidden_states, heads.qkvz, heads.ba), ctx.stream);
    run_delta_net_heads(heads, *ctx.attention, ctx.stream);
    stream_group(output(heads.out, out), ctx.stream);
  }

 private:
  DeltaNetHeads sizes() const {
    DeltaNetHeads heads;
    heads.num_k_heads = init_.num_k_heads;
    heads.num_v_heads = init_.num_v_heads;
    heads.head_k_dim = init_.head_k_dim;
    heads.head_v_dim = init_.head_v_dim;
    heads.key_eps = L2Norm::Init{}.eps;
    heads.norm_eps = init_.norm_eps;
    return heads;
  }

  StreamGroup projecting(const View& x, const View& qkvz, const View& ba) const {
    StreamGroup group;
    group.products.add({.weight = qkvz_, .out = qkvz, .x = x});
    group.products.add({.weight = ba_, .out = ba, .x = x});
    return group;
  }
  StreamGroup output(const View& x, const View& out) const {
    StreamGroup group;
    group.products.add({.weight = out_, .out = out, .x = x});
    return group;
  }

  bool bound_ = false;
  View qkvz_, ba_, conv_, a_log_, dt_bias_, norm_, out_;
};

FK_FUSED_IMPLEMENTATION(GatedDeltaNet, StreamedGatedDeltaNet, "cuda.stream_groups", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
