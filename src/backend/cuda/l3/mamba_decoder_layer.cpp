// The layer of Mamba on CUDA for few tokens, in four launches: the norm with in_proj, the convolution with x_proj,
// dt_proj with the scan, out_proj.
#include "ops/l3/mamba_decoder_layer.h"

#include "backend/cuda/matmul/stream_group.h"
#include "backend/cuda/recurrence/mamba_step.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class StreamedMambaLayer final : public MambaDecoderLayer {
 public:
  explicit StreamedMambaLayer(const Init& init) : MambaDecoderLayer(init) {}

  std::string_view refuse(Args args) const override {
    const View& x = *args[1];
    if (!x.rows_contiguous()) return "rows must be contiguous";
    if (x.dtype() != mixer().dtype) return "x must have the dtype of the weights";
    if (std::string_view why = refuse_mamba_step(mixer()); !why.empty()) return why;
    if (!bound_) return {};  // refuse() may be called before weights are bound
    // Only the shapes of what lies between the launches matter here.
    auto nothing = [&](int64_t width) { return View(nullptr, Shape{x.size(0), width}, x.dtype(), x.device()); };
    if (std::string_view why = stream_group_refusal(projecting(x, args[2], *args[4], nothing(in_proj_.size(0))));
        !why.empty())
      return why;
    return stream_group_refusal(closing(nothing(mixer().intermediate_size), *args[3]));
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    norm_ = weight("norm.weight");
    in_proj_ = weight("mixer.in_proj.weight");
    out_proj_ = weight("mixer.out_proj.weight");
    if (mixer().use_bias) {
      in_bias_ = weight("mixer.in_proj.bias");
      out_bias_ = weight("mixer.out_proj.bias");
    }
    step_.conv_weight = weight("mixer.conv1d.weight");
    if (mixer().use_conv_bias) step_.conv_bias = weight("mixer.conv1d.bias");
    step_.x_proj = weight("mixer.x_proj.weight");
    step_.dt_proj = weight("mixer.dt_proj.weight");
    step_.A_log = weight("mixer.A_log");
    step_.skip = weight("mixer.D");
    step_.dt_bias = weight("mixer.dt_proj.bias");
    step_.norms = !mixer().inner_norms.empty();
    step_.norm_eps = mixer().inner_norm_eps;
    if (mixer().inner_norms == "weighted") {
      step_.dt_norm = weight("mixer.dt_layernorm.weight");
      step_.b_norm = weight("mixer.b_layernorm.weight");
      step_.c_norm = weight("mixer.c_layernorm.weight");
    }
    bound_ = true;
  }

  void forward(Context& ctx, View, View hidden_states, OptView residual, View out, View residual_out) override {
    if (hidden_states.size(0) == 0) return;
    auto make = [&](int64_t width) { return ctx.arena.make({{hidden_states.size(0), width}, hidden_states.dtype()}); };
    const int64_t I = mixer().intermediate_size;
    View projected = make(2 * I);
    stream_group(projecting(hidden_states, residual, residual_out, projected), ctx.stream);
    MambaStep step = step_;
    step.x = projected.narrow(1, 0, I);
    step.gate = projected.narrow(1, I, I);
    step.conv_state = own_state(ctx, 0);
    step.ssm_state = own_state(ctx, 1);
    step.out = make(I);
    run_mamba_step(step, ctx);
    stream_group(closing(step.out, out), ctx.stream);
  }

 private:
  const MambaMixerInit& mixer() const { return init_.mixer; }

  StreamGroup projecting(const View& x, const OptView& residual, const View& residual_out,
                         const View& projected) const {
    StreamGroup group;
    group.prologue =
        RmsNormRows{.x = x, .residual = residual, .weight = norm_, .eps = init_.rms_norm_eps, .sum_out = residual_out};
    group.products.add({.weight = in_proj_, .out = projected, .bias = in_bias_});
    return group;
  }

  StreamGroup closing(const View& y, const View& out) const {
    StreamGroup group;
    group.products.add({.weight = out_proj_, .out = out, .bias = out_bias_, .x = y});
    return group;
  }

  bool bound_ = false;
  View norm_, in_proj_, out_proj_;
  OptView in_bias_, out_bias_;
  MambaStep step_;
};

FK_FUSED_IMPLEMENTATION(MambaDecoderLayer, StreamedMambaLayer, "cuda.stream_groups", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
