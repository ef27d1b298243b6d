// Mamba 2 on CUDA when one sequence decodes: the whole token in one kernel (mamba2_token/mamba2_token.h).
#include "ops/l4/mamba2_for_causal_lm.h"

#include <fmt/format.h>

#include <vector>

#include "backend/cuda/mamba2_token/mamba2_token.h"
#include "core/device_runtime.h"
#include "core/memory.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class OneKernelMamba2 final : public Mamba2ForCausalLM {
 public:
  explicit OneKernelMamba2(const Init& c) : Mamba2ForCausalLM(c), call_(sizes(c)), unfit_(judge(c)) {}

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
    std::vector<Mamba2TokenLayer> layers;
    for (int64_t i = 0; i < init_.num_hidden_layers; ++i)
      layers.push_back(
          layer([&](std::string_view name) { return address(fmt::format("model.layers.{}.{}", i, name)); }));
    call_.embedding = address("model.embed_tokens.weight");
    call_.final_norm = address("model.norm.weight");
    call_.head = address("lm_head.weight");
    Device device = weight("lm_head.weight").device();
    const size_t bytes = layers.size() * sizeof(Mamba2TokenLayer);
    layers_ = Buffer(bytes, device);
    device_runtime(device).upload(layers_.data(), layers.data(), bytes);
    arrivals_ = Buffer(sizeof(unsigned), device);
  }

  void forward(Context& ctx, View input_ids, View, View, View logits) override {
    // One token: of a decoding sequence, or of a prompt of one token.
    const SequenceGroup& sequence =
        ctx.attention->decode.num_tokens == 1 ? ctx.attention->decode : ctx.attention->prefill;
    Mamba2TokenCall call = call_;
    call.of_layers = reinterpret_cast<const Mamba2TokenLayer*>(layers_.data());
    for (int64_t i = 0; i < init_.num_hidden_layers; ++i) {
      // The states of the tree are those of its layers: the window and the scan, one layer after the other.
      const auto first = static_cast<size_t>(2 * i);
      const View &window = own_state(ctx, first), &scan = own_state(ctx, first + 1);
      FK_CHECK(window.contiguous() && scan.contiguous() && window.dtype() == init_.dtype);
      call.states[i] = {window.data(), scan.ptr<float>()};
      call.state_slots = scan.size(0);
    }
    call.id = input_ids.ptr<int64_t>();
    call.state_slot = sequence.state_slots.ptr<int32_t>();
    auto vector = [&](int64_t elements, DType dtype) { return ctx.arena.make({{elements}, dtype}).data(); };
    call.out = vector(call.hidden, init_.dtype);
    for (void*& residual : call.residuals) residual = vector(call.hidden, init_.dtype);
    call.gate = vector(call.size(), init_.dtype);
    call.mixed = vector(call.conv_channels(), init_.dtype);
    call.dt = vector(call.heads, init_.dtype);
    call.gated = static_cast<float*>(vector(call.size(), DType::kF32));
    call.squares = static_cast<float*>(vector(call.heads, DType::kF32));
    call.logits = logits.ptr<float>();
    call.arrivals = reinterpret_cast<unsigned*>(arrivals_.data());
    mamba2_token(call, ctx.stream);
  }

 private:
  static Mamba2TokenCall sizes(const Init& c) {
    auto product = [](int64_t features, int64_t length) {
      return DividedShape{{static_cast<int>(features), static_cast<int>(length)}, {}};
    };
    const Mamba2Mixer::Init mixer = Mamba2ForCausalLM::layer(c, 0).mixer;
    Mamba2TokenCall call{};
    call.in_shape = product(mixer.intermediate_size() + mixer.conv_dim() + mixer.num_heads, c.hidden_size);
    call.out_shape = product(c.hidden_size, mixer.intermediate_size());
    call.head_shape = product(c.vocab_size, c.hidden_size);
    call.layers = static_cast<int>(c.num_hidden_layers);
    call.hidden = static_cast<int>(c.hidden_size);
    call.vocabulary = static_cast<int>(c.vocab_size);
    call.width = static_cast<int>(mixer.conv_kernel);
    call.heads = static_cast<int>(mixer.num_heads);
    call.head_dim = static_cast<int>(mixer.head_dim);
    call.num_states = static_cast<int>(mixer.state_size);
    call.groups = static_cast<int>(mixer.n_groups);
    call.eps = static_cast<float>(c.rms_norm_eps);
    call.gated_eps = static_cast<float>(mixer.norm_eps);
    return call;
  }

  // Why such a model cannot run in one kernel; empty when it can.
  std::string_view judge(const Init& c) const {
    if (c.dtype != DType::kBF16) return "it computes in bf16";
    if (!c.weight_format.empty()) return "it reads weights of the dtype it computes in";
    if (!c.aux_hidden_state_layers.empty()) return "it keeps no hidden states of layers";
    return mamba2_token_refusal(call_);
  }

  template <class Weight>
  Mamba2TokenLayer layer(const Weight& weight) const {
    Mamba2TokenLayer l{};
    l.norm = weight("norm.weight");
    l.in_proj = weight("mixer.in_proj.weight");
    l.out_proj = weight("mixer.out_proj.weight");
    if (init_.use_bias) {
      l.in_bias = weight("mixer.in_proj.bias");
      l.out_bias = weight("mixer.out_proj.bias");
    }
    l.conv_weight = weight("mixer.conv1d.weight");
    if (init_.use_conv_bias) l.conv_bias = weight("mixer.conv1d.bias");
    l.A_log = weight("mixer.A_log");
    l.skip = weight("mixer.D");
    l.dt_bias = weight("mixer.dt_bias");
    l.gated_norm = weight("mixer.norm.weight");
    return l;
  }

  Mamba2TokenCall call_;  // sizes and weights; the other addresses come with each call
  std::string_view unfit_;
  bool aligned_ = false;  // all weights of the model
  Buffer layers_, arrivals_;
};

FK_FUSED_IMPLEMENTATION(Mamba2ForCausalLM, OneKernelMamba2, "cuda.one_kernel", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
