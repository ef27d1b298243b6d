// RWKV7Gates on CUDA: a warp for each head of a token.
#include "ops/l1/rwkv7_gates.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kGateWarps = 4;

template <class T>
struct Gates {
  RowsOf<const T> w, k, v, a, v_gate, v_first;
  const T *k_k, *k_a;
  RowsOf<float> decay;
  T* mixed;
  RowsOf<T> value;
  int64_t rows, part;  // heads of all tokens; elements of a part of `mixed`
  int heads, width;
  float decay_scale, eps;
};

__device__ __forceinline__ float logistic_of(float x) { return 1.0f / (1.0f + expf(-x)); }

template <class T>
__global__ void __launch_bounds__(32 * kGateWarps) gate_heads(const Gates<T> c) {
  let_next_start();
  wait_for_previous();
  const int lane = threadIdx.x % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kGateWarps + threadIdx.x / 32;
  if (row >= c.rows) return;  // whole warps
  const int64_t t = row / c.heads;
  const int first = static_cast<int>(row % c.heads) * c.width;
  const T* k = c.k.row(t) + first;
  float squares = 0;
  for (int i = lane; i < c.width; i += 32) {
    const float x = to_float(k[i]) * to_float(c.k_k[first + i]);
    squares = fmaf(x, x, squares);
  }
  const float scale = 1.0f / sqrtf(reduce_warp<Sum>(squares) + c.eps);
  T* mixed = c.mixed + t * c.heads * c.width + first;
  for (int i = lane; i < c.width; i += 32) {
    const int at = first + i;
    const float rate = logistic_of(to_float(c.a.row(t)[at])), key = to_float(k[i]);
    const float unit = key * to_float(c.k_k[at]) * scale;
    c.decay.row(t)[at] = c.decay_scale * logistic_of(to_float(c.w.row(t)[at]));
    mixed[i] = from_float<T>(key * (1.0f + (rate - 1.0f) * to_float(c.k_a[at])));
    mixed[c.part + i] = from_float<T>(-unit);
    mixed[2 * c.part + i] = from_float<T>(unit * rate);
    if (c.v_gate.at != nullptr) {
      const float v = to_float(c.v.row(t)[at]), earlier = to_float(c.v_first.row(t)[at]);
      c.value.row(t)[at] = from_float<T>(v + (earlier - v) * logistic_of(to_float(c.v_gate.row(t)[at])));
    }
  }
}

class RWKV7GatesWarpPerHead final : public RWKV7Gates {
 public:
  using RWKV7Gates::RWKV7Gates;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[2], &args[3], &args[4], &args[5], &args[7], &args[8]})
                       : why;
  }

  void forward(Context& ctx, View w, View k, View v, View a, OptView v_gate, OptView v_first, View decay, View mixed,
               OptView value) override {
    with_float_type(k.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      Gates<T> c{};
      c.w = rows_of<const T>(w);
      c.k = rows_of<const T>(k);
      c.v = rows_of<const T>(v);
      c.a = rows_of<const T>(a);
      if (v_gate) c.v_gate = rows_of<const T>(*v_gate);
      if (v_first) c.v_first = rows_of<const T>(*v_first);
      c.k_k = static_cast<const T*>(k_k().data());
      c.k_a = static_cast<const T*>(k_a().data());
      c.decay = rows_of<float>(decay);
      c.mixed = static_cast<T*>(mixed.data());
      if (value) c.value = rows_of<T>(*value);
      c.rows = k.size(0) * init_.num_heads;
      c.part = k.size(0) * init_.width();
      c.heads = static_cast<int>(init_.num_heads);
      c.width = static_cast<int>(init_.head_dim);
      c.decay_scale = static_cast<float>(kDecayScale);
      c.eps = static_cast<float>(init_.eps);
      launch("rwkv7_gates", gate_heads<T>, blocks_for(c.rows, kGateWarps), 32 * kGateWarps, 0, ctx.stream, c);
    });
  }
};

FK_IMPLEMENTATION(RWKV7Gates, RWKV7GatesWarpPerHead, "cuda.warp_per_head", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
