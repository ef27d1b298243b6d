// AttentionTemperature on CUDA: a thread for each token.
#include "ops/l1/attention_temperature.h"

#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    temperature_tokens(const int64_t* positions, int64_t stride, const RowsOf<float> factors, int64_t tokens,
                       double attn_scale, int64_t floor_scale) {
  let_next_start();
  wait_for_previous();
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (token >= tokens) return;
  const int64_t steps = (positions[token * stride] + 1) / floor_scale;
  *factors.row(token) = static_cast<float>(1 + attn_scale * log1p(static_cast<double>(steps)));
}

class AttentionTemperatureTokens final : public AttentionTemperature {
 public:
  using AttentionTemperature::AttentionTemperature;

  std::string_view refuse(Args args) const override {
    if (args[0]->dtype() != DType::kI64 || args[1]->dtype() != DType::kF32) return "positions are i64 and factors f32";
    return {};
  }

  void forward(Context& ctx, View positions, View factors) override {
    launch("attention_temperature", temperature_tokens, blocks_for(positions.size(0), kThreads), kThreads, 0,
           ctx.stream, positions.ptr<int64_t>(), positions.stride(0), rows_of<float>(factors), positions.size(0),
           init_.attn_scale, init_.floor_scale);
  }
};

FK_IMPLEMENTATION(AttentionTemperature, AttentionTemperatureTokens, "cuda.token_per_thread", DeviceKind::kCuda, 0,
                  nullptr);

}  // namespace
}  // namespace fk::cuda
