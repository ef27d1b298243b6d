// The feed-forward blocks with quantised weights on CUDA for few rows: gate, up and activation in one pass over their
// codes, then down.
#include "backend/cuda/quantised/any_product.h"
#include "ops/l2/gemma_mlp.h"
#include "ops/l2/llama_mlp.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T, StreamEpilogue kActivation>
class StreamedCodesMlp final : public T {
 public:
  explicit StreamedCodesMlp(const MlpBlockInit& init)
      : T(init),
        features_(rank_share(init.intermediate_size, init.tp_size, "intermediate features")),
        format_(MlpBlock::gate_up_format(init)) {}

  std::string_view refuse(Args args) const override {
    const View& x = *args[0];
    if (format_.empty()) return "it reads quantised weights";
    if (this->init_.tp_size > 1 && this->init_.reduce_results) return "it does not add up ranks";
    std::string_view why = quantised_call_refusal(x, *args[1], this->init_.bias, this->init_.dtype);
    if (!why.empty()) return why;
    // Only the shape of the intermediate tensor matters here.
    View between(x.data(), Shape{x.size(0), features_}, x.dtype(), x.device());
    return gate_up_proj_.quantised().stream_refusal(x, between, kActivation);
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    const MlpBlockInit& init = this->init_;
    if (format_.empty()) return;
    gate_up_proj_.bind({.path = "gate_up_proj",
                        .weight_format = format_,
                        .rows = {features_, features_},
                        .columns = init.hidden_size,
                        .bias = init.bias},
                       weight);
    down_proj_.bind({.path = "down_proj",
                     .weight_format = format_of_module(init.weight_format, "down_proj"),
                     .rows = {init.hidden_size},
                     .columns = features_,
                     .bias = init.bias},
                    weight);
  }

  void forward(Context& ctx, View x, View out) override {
    View between = ctx.arena.make({{x.size(0), features_}, x.dtype()});
    gate_up_proj_.quantised().stream(ctx, x, gate_up_proj_.bias(), between, kActivation);
    down_proj_.run(ctx, between, out);
  }

 private:
  int64_t features_;    // of this rank
  std::string format_;  // of gate and up
  AnyProduct gate_up_proj_, down_proj_;
};

using StreamedCodesLlamaMlp = StreamedCodesMlp<LlamaMLP, StreamEpilogue::kSiluAndMul>;
using StreamedCodesGemmaMlp = StreamedCodesMlp<GemmaMLP, StreamEpilogue::kGeluTanhAndMul>;

FK_FUSED_IMPLEMENTATION(LlamaMLP, StreamedCodesLlamaMlp, "cuda.stream_codes_gate_up", DeviceKind::kCuda, 90, nullptr);
FK_FUSED_IMPLEMENTATION(GemmaMLP, StreamedCodesGemmaMlp, "cuda.stream_codes_gate_up", DeviceKind::kCuda, 90, nullptr);

}  // namespace
}  // namespace fk::cuda
