// Mamba on CUDA when one sequence decodes, with or without inner norms: the whole token in one kernel
// (mamba_token/mamba_token.h).
#include "ops/l4/mamba_for_causal_lm.h"

#include <fmt/format.h>

#include <vector>

#include "backend/cuda/mamba_token/mamba_token.h"
#include "core/device_runtime.h"
#include "core/memory.h"
#include "ops/l4/falcon_mamba_for_causal_lm.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

// T: the operator.
template <class T>
class OneKernelMamba final : public T {
 public:
  using Init = typename T::Init;
  explicit OneKernelMamba(const Init& c) : T(c), call_(sizes(c)), unfit_(judge(c)) {}

  std::string_view refuse(Args args) const override {
    if (!unfit_.empty()) return unfit_;
    if (!aligned_) return "weights must start on 16 bytes";
    if (args[0]->size(0) != 1 || args[2]->size(0) != 1) return "it computes one token of one sequence";
    return {};
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    if (!unfit_.empty()) return;
    aligned_ = true;
    auto address = [&](const std::string& name) {
      const void* at = weight(name).data();
      aligned_ = aligned_ && reinterpret_cast<uintptr_t>(at) % 16 == 0;
      return at;
    };
    std::vector<MambaTokenLayer> layers;
    for (int64_t i = 0; i < this->init_.num_hidden_layers; ++i)
      layers.push_back(
          layer([&](std::string_view name) { return address(fmt::format("model.layers.{}.{}", i, name)); }));
    call_.embedding = address("model.embed_tokens.weight");
    call_.final_norm = address("model.norm.weight");
    call_.head = address("lm_head.weight");
    Device device = weight("lm_head.weight").device();
    const size_t bytes = layers.size() * sizeof(MambaTokenLayer);
    layers_ = Buffer(bytes, device);
    device_runtime(device).upload(layers_.data(), layers.data(), bytes);
    counters_ = Buffer(2 * sizeof(uint32_t), device);
    gated_ = Buffer(static_cast<size_t>(call_.channels / 2) * sizeof(uint64_t), device);
    out_ = Buffer(static_cast<size_t>(call_.hidden / 2) * sizeof(uint64_t), device);
    sums_ = Buffer(2 * static_cast<size_t>(call_.sums_of_layer()) * sizeof(unsigned long long), device);
    auto* counters = reinterpret_cast<uint32_t*>(counters_.data());
    call_.memory = {.arrivals = counters,
                    .tag = counters + 1,
                    .gated = reinterpret_cast<uint64_t*>(gated_.data()),
                    .out = reinterpret_cast<uint64_t*>(out_.data()),
                    .sums = reinterpret_cast<unsigned long long*>(sums_.data())};
  }

  void forward(Context& ctx, View input_ids, View, View, View logits) override {
    // One token: of a decoding sequence, or of a prompt of one token.
    const SequenceGroup& sequence =
        ctx.attention->decode.num_tokens == 1 ? ctx.attention->decode : ctx.attention->prefill;
    MambaTokenCall call = call_;
    call.of_layers = reinterpret_cast<const MambaTokenLayer*>(layers_.data());
    for (int64_t i = 0; i < this->init_.num_hidden_layers; ++i) {
      // The states of the tree are those of its layers: the window and the scan, one layer after the other.
      const auto first = static_cast<size_t>(2 * i);
      const View &window = this->own_state(ctx, first), &scan = this->own_state(ctx, first + 1);
      FK_CHECK(window.contiguous() && scan.contiguous() && window.dtype() == this->init_.dtype);
      call.states[i] = {window.data(), scan.template ptr<float>()};
      call.state_slots = scan.size(0);
    }
    call.id = input_ids.ptr<int64_t>();
    call.state_slot = sequence.state_slots.template ptr<int32_t>();
    call.logits = logits.ptr<float>();
    mamba_token(call, ctx.stream);
  }

 private:
  static MambaTokenCall sizes(const Init& c) {
    auto product = [](int64_t features, int64_t length) {
      return DividedShape{{static_cast<int>(features), static_cast<int>(length)}, {}};
    };
    const MambaMixerInit mixer = mamba_mixer(c);
    MambaTokenCall call{};
    call.half_shape = product(mixer.intermediate_size, c.hidden_size);
    call.out_shape = product(c.hidden_size, mixer.intermediate_size);
    call.head_shape = product(c.vocab_size, c.hidden_size);
    call.layers = static_cast<int>(c.num_hidden_layers);
    call.hidden = static_cast<int>(c.hidden_size);
    call.vocabulary = static_cast<int>(c.vocab_size);
    call.width = static_cast<int>(mixer.conv_kernel);
    call.channels = static_cast<int>(mixer.intermediate_size);
    call.rank = static_cast<int>(mixer.time_step_rank);
    call.inner_norms = !mixer.inner_norms.empty();
    call.eps = static_cast<float>(c.rms_norm_eps);
    call.inner_eps = static_cast<float>(mixer.inner_norm_eps);
    return call;
  }

  // Why such a model cannot run in one kernel; empty when it can.
  std::string_view judge(const Init& c) const {
    if (c.dtype != DType::kBF16) return "it computes in bf16";
    if (!c.weight_format.empty()) return "it reads weights of the dtype it computes in";
    if (!c.aux_hidden_state_layers.empty()) return "it keeps no hidden states of layers";
    if (c.state_size != kMambaStates) return "channels must have 16 states";
    return mamba_token_refusal(call_);
  }

  template <class Weight>
  MambaTokenLayer layer(const Weight& weight) const {
    const Init& c = this->init_;
    MambaTokenLayer l{};
    l.norm = weight("norm.weight");
    l.in_proj = weight("mixer.in_proj.weight");
    l.out_proj = weight("mixer.out_proj.weight");
    if (c.use_bias) {
      l.in_bias = weight("mixer.in_proj.bias");
      l.out_bias = weight("mixer.out_proj.bias");
    }
    l.conv_weight = weight("mixer.conv1d.weight");
    if (c.use_conv_bias) l.conv_bias = weight("mixer.conv1d.bias");
    l.x_proj = weight("mixer.x_proj.weight");
    l.dt_proj = weight("mixer.dt_proj.weight");
    l.A_log = weight("mixer.A_log");
    l.skip = weight("mixer.D");
    l.dt_bias = weight("mixer.dt_proj.bias");
    if (c.inner_norms == "weighted") {
      l.dt_norm = weight("mixer.dt_layernorm.weight");
      l.b_norm = weight("mixer.b_layernorm.weight");
      l.c_norm = weight("mixer.c_layernorm.weight");
    }
    return l;
  }

  MambaTokenCall call_;  // sizes, weights and memory; the other addresses come with each call
  std::string_view unfit_;
  bool aligned_ = false;  // all weights of the model
  Buffer layers_, counters_, gated_, out_, sums_;
};

using OneKernelMambaLM = OneKernelMamba<MambaForCausalLM>;
using OneKernelFalconMambaLM = OneKernelMamba<FalconMambaForCausalLM>;

FK_FUSED_IMPLEMENTATION(MambaForCausalLM, OneKernelMambaLM, "cuda.one_kernel", DeviceKind::kCuda, 100, nullptr);
FK_FUSED_IMPLEMENTATION(FalconMambaForCausalLM, OneKernelFalconMambaLM, "cuda.one_kernel", DeviceKind::kCuda, 100,
                        nullptr);

}  // namespace
}  // namespace fk::cuda
