// A gated delta net on CUDA for few tokens, in three launches: the first products, what belongs to heads, the output.
#include "ops/l2/gated_delta_net.h"

#include "backend/cuda/l2/delta_net_launches.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class StreamedGatedDeltaNet final : public GatedDeltaNet {
 public:
  explicit StreamedGatedDeltaNet(const Init& init) : GatedDeltaNet(init), net_(init) {}

  std::string_view refuse(Args args) const override {
    const View& x = *args[0];
    if (!x.rows_contiguous()) return "rows must be contiguous";
    if (x.dtype() != init_.dtype) return "x must have the dtype of the weights";
    if (std::string_view why = net_.refuse(); !why.empty()) return why;
    if (!bound_) return {};  // refuse() may be called before weights are bound
    const DeltaNetHeads heads = net_.heads([&](int64_t columns) {
      return View(nullptr, Shape{x.size(0), columns}, x.dtype(), x.device());
    });
    for (const StreamGroup& group : {projecting(x, heads), net_.output(heads, *args[1])})
      if (std::string_view why = stream_group_refusal(group); !why.empty()) return why;
    return {};
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    net_.bind(weight, "");
    bound_ = true;
  }

  void forward(Context& ctx, View hidden_states, View out) override {
    DeltaNetHeads heads = net_.heads([&](int64_t columns) {
      return ctx.arena.make({{hidden_states.size(0), columns}, init_.dtype});
    });
    heads.state = own_state(ctx, 0);
    heads.conv_state = own_state(ctx, 1);
    stream_group(projecting(hidden_states, heads), ctx.stream);
    run_delta_net_heads(heads, *ctx.attention, ctx.stream);
    stream_group(net_.output(heads, out), ctx.stream);
  }

 private:
  StreamGroup projecting(const View& x, const DeltaNetHeads& heads) const {
    StreamGroup group;
    net_.add_products(group, heads, x);
    return group;
  }

  DeltaNetLaunches net_;
  bool bound_ = false;
};

FK_FUSED_IMPLEMENTATION(GatedDeltaNet, StreamedGatedDeltaNet, "cuda.stream_groups", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
