// LayerNorm on CUDA: a block for each row, which is read three times, the second and third from a cache.
#include "ops/l1/layer_norm.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/packs.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kThreads = 256;

// Rows (t, h) of [T, H, D]; strides in elements. residual, residual_out and bias may be null.
template <class T>
struct LayerNormCall {
  const T *x, *residual, *weight, *bias;
  T *out, *residual_out;
  int64_t x_token, x_head, residual_token, out_token, out_head, residual_out_token, weight_head;
  unsigned heads, width;
  float eps;
};

template <class T>
__global__ void __launch_bounds__(kThreads) layer_norm_row(const LayerNormCall<T> call) {
  __shared__ float scratch[33];
  let_next_start();
  wait_for_previous();
  const int64_t token = blockIdx.x / call.heads, head = blockIdx.x % call.heads;
  const T* x = call.x + token * call.x_token + head * call.x_head;
  float sum = 0;
  if (call.residual != nullptr) {
    // The sum is rounded to T before it is normed, as the next layer reads it. A thread reads only what it wrote.
    const T* residual = call.residual + token * call.residual_token;
    T* added = call.residual_out + token * call.residual_out_token;
    for (unsigned i = threadIdx.x; i < call.width; i += kThreads)
      added[i] = from_float<T>(to_float(x[i]) + to_float(residual[i]));
    x = added;
  }
  for (unsigned i = threadIdx.x; i < call.width; i += kThreads) sum += to_float(x[i]);
  const float mean = reduce_block<Sum>(sum, scratch) / static_cast<float>(call.width);
  float squares = 0;
  for (unsigned i = threadIdx.x; i < call.width; i += kThreads) {
    const float from_mean = to_float(x[i]) - mean;
    squares = fmaf(from_mean, from_mean, squares);
  }
  squares = reduce_block<Sum>(squares, scratch);
  const float scale = 1.0f / sqrtf(squares / static_cast<float>(call.width) + call.eps);
  const T* weight = call.weight + head * call.weight_head;
  const T* bias = call.bias != nullptr ? call.bias + head * call.weight_head : nullptr;
  T* out = call.out + token * call.out_token + head * call.out_head;
  for (unsigned i = threadIdx.x; i < call.width; i += kThreads) {
    const float normed = (to_float(x[i]) - mean) * scale * to_float(weight[i]);
    out[i] = from_float<T>(bias != nullptr ? normed + to_float(bias[i]) : normed);
  }
}

class LayerNormBlockPerRow final : public LayerNorm {
 public:
  using LayerNorm::LayerNorm;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[2], &args[3]}) : why;
  }

  void forward(Context& ctx, View x, OptView residual, View out, OptView residual_out) override {
    if (x.numel() == 0) return;
    bool heads = x.rank() == 3;
    with_packs(x.dtype(), false, [&](auto type, auto) {
      using T = typename decltype(type)::type;
      auto start = [](const OptView& v) { return v ? static_cast<T*>(v->data()) : static_cast<T*>(nullptr); };
      LayerNormCall<T> call{.x = start(x),
                            .residual = start(residual),
                            .weight = start(weight()),
                            .bias = start(bias()),
                            .out = start(out),
                            .residual_out = start(residual_out),
                            .x_token = x.stride(0),
                            .x_head = heads ? x.stride(1) : 0,
                            .residual_token = residual ? residual->stride(0) : 0,
                            .out_token = out.stride(0),
                            .out_head = heads ? out.stride(1) : 0,
                            .residual_out_token = residual_out ? residual_out->stride(0) : 0,
                            .weight_head = init_.num_heads > 0 ? x.size(-1) : 0,
                            .heads = heads ? static_cast<unsigned>(x.size(1)) : 1u,
                            .width = static_cast<unsigned>(x.size(-1)),
                            .eps = static_cast<float>(init_.eps)};
      launch("layer_norm", layer_norm_row<T>, static_cast<unsigned>(x.size(0)) * call.heads, kThreads, 0, ctx.stream,
             call);
    });
  }
};

FK_IMPLEMENTATION(LayerNorm, LayerNormBlockPerRow, "cuda.block_per_row", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
