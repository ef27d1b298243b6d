// The feed-forward blocks on CUDA for few rows: gate, up and activation in one pass over their weights, then down.
#include "backend/cuda/matmul/matmul.h"
#include "ops/l2/gemma_mlp.h"
#include "ops/l2/llama_mlp.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T, StreamEpilogue kActivation>
class StreamedMlp final : public T {
 public:
  explicit StreamedMlp(const MlpBlockInit& init) : T(init) {}

  std::string_view refuse(Args args) const override {
    const View& x = *args[0];
    if (!this->init_.weight_format.empty()) return "it reads weights of the dtype it computes in";
    if (!x.rows_contiguous()) return "rows must be contiguous";
    if (this->init_.tp_size > 1 && this->init_.reduce_results) return "it does not add up ranks";
    // Only the shape of the intermediate tensor matters here.
    View between(x.data(), Shape{x.size(0), gate_up_.size(0) / 2}, x.dtype(), x.device());
    return streamed_refusal(problem(x, between), operands(x, between), kActivation);
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    if (!this->init_.weight_format.empty()) return;
    gate_up_ = weight("gate_up_proj.weight");
    down_ = weight("down_proj.weight");
    if (this->init_.bias) {
      gate_up_bias_ = weight("gate_up_proj.bias");
      down_bias_ = weight("down_proj.bias");
    }
  }

  void forward(Context& ctx, View x, View out) override {
    View between = ctx.arena.make({{x.size(0), gate_up_.size(0) / 2}, x.dtype()});
    multiply_streamed(problem(x, between), operands(x, between), kActivation, ctx.stream);
    down_proj_.run(ctx, between, down_, down_bias_ ? down_bias_->data() : nullptr, out);
  }

 private:
  MatmulProblem problem(const View& x, const View& between) const {
    return problem_of(x, gate_up_, gate_up_bias_.has_value(), between);
  }
  MatmulOperands operands(const View& x, const View& between) const {
    return {x.data(), gate_up_.data(), gate_up_bias_ ? gate_up_bias_->data() : nullptr, between.data()};
  }

  Matmul down_proj_;
  View gate_up_, down_;
  OptView gate_up_bias_, down_bias_;
};

using StreamedLlamaMlp = StreamedMlp<LlamaMLP, StreamEpilogue::kSiluAndMul>;
using StreamedGemmaMlp = StreamedMlp<GemmaMLP, StreamEpilogue::kGeluTanhAndMul>;

FK_FUSED_IMPLEMENTATION(LlamaMLP, StreamedLlamaMlp, "cuda.stream_gate_up", DeviceKind::kCuda, 100, nullptr);
FK_FUSED_IMPLEMENTATION(GemmaMLP, StreamedGemmaMlp, "cuda.stream_gate_up", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
