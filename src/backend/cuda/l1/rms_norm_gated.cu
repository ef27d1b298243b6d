// RMSNormGated on CUDA: a warp or a block for each group of a row, which is read a second time from the L1 or L2.
#include "ops/l1/rms_norm_gated.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/packs.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kGatedThreads = 256;

// Group g of head h of token t is item (t * heads + h) * groups + g; strides in elements.
template <class T>
struct GatedNormCall {
  const T* x;
  const T* gate;
  const T* weight;
  T* out;
  int64_t x_token, x_head, gate_token, gate_head, out_token, out_head;
  int64_t items;
  unsigned heads, groups, width;
  float eps;
  bool norm_first, sigmoid;

  __device__ float gate_of(float g) const { return (sigmoid ? 1.0f : g) / (1.0f + expf(-g)); }
};

template <class T, int N, bool kBlock>
__global__ void __launch_bounds__(kGatedThreads) norm_and_gate(const GatedNormCall<T> call) {
  __shared__ float scratch[33];
  let_next_start();
  wait_for_previous();
  const unsigned lanes = kBlock ? kGatedThreads : 32, lane = threadIdx.x % lanes;
  const int64_t item = kBlock ? blockIdx.x : static_cast<int64_t>(blockIdx.x) * (kGatedThreads / 32) + threadIdx.x / 32;
  if (!kBlock && item >= call.items) return;
  const unsigned group = static_cast<unsigned>(item % call.groups) * call.width;
  const int64_t row = item / call.groups, token = row / call.heads, head = row % call.heads;
  const T* x = call.x + token * call.x_token + head * call.x_head + group;
  const T* gate = call.gate + token * call.gate_token + head * call.gate_head + group;
  T* out = call.out + token * call.out_token + head * call.out_head + group;
  auto gated = [&](const Pack<T, N>& values, const Pack<T, N>& gates, int k) {
    const float v = to_float(values.at[k]);
    return call.norm_first ? v : v * call.gate_of(to_float(gates.at[k]));
  };
  float squares = 0;
  for (unsigned i = lane * N; i < call.width; i += lanes * N) {
    const Pack<T, N> values = load_pack<T, N>(x + i), gates = load_pack<T, N>(gate + i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float v = gated(values, gates, k);
      squares = fmaf(v, v, squares);
    }
  }
  squares = kBlock ? reduce_block<Sum>(squares, scratch) : reduce_warp<Sum>(squares);
  const float scale = 1.0f / sqrtf(squares / static_cast<float>(call.width) + call.eps);
  for (unsigned i = lane * N; i < call.width; i += lanes * N) {
    const Pack<T, N> values = load_pack<T, N>(x + i), gates = load_pack<T, N>(gate + i),
                     weight = load_pack<T, N>(call.weight + group + i);
    Pack<T, N> result;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float v = gated(values, gates, k) * scale * to_float(weight.at[k]);
      result.at[k] = from_float<T>(call.norm_first ? v * call.gate_of(to_float(gates.at[k])) : v);
    }
    store_pack<T, N>(out + i, result);
  }
}

class RMSNormGatedGroups final : public RMSNormGated {
 public:
  using RMSNormGated::RMSNormGated;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[2]}) : why;
  }

  void forward(Context& ctx, View x, View gate, View out) override {
    const bool heads = x.rank() == 3;
    const int64_t group_bytes = init_.group() * static_cast<int64_t>(dtype_size(x.dtype()));
    const bool packs = group_bytes % 16 == 0 && rows_fit_packs(x) && rows_fit_packs(gate) && rows_fit_packs(out) &&
                       rows_fit_packs(weight());
    with_packs(x.dtype(), packs, [&](auto type, auto n) {
      using T = typename decltype(type)::type;
      constexpr int N = decltype(n)::value;
      GatedNormCall<T> call{};
      call.x = static_cast<const T*>(x.data());
      call.gate = static_cast<const T*>(gate.data());
      call.weight = static_cast<const T*>(weight().data());
      call.out = static_cast<T*>(out.data());
      call.x_token = x.stride(0);
      call.x_head = heads ? x.stride(1) : 0;
      call.gate_token = gate.stride(0);
      call.gate_head = heads ? gate.stride(1) : 0;
      call.out_token = out.stride(0);
      call.out_head = heads ? out.stride(1) : 0;
      call.heads = heads ? static_cast<unsigned>(x.size(1)) : 1;
      call.groups = static_cast<unsigned>(init_.hidden_size / init_.group());
      call.width = static_cast<unsigned>(init_.group());
      call.items = x.size(0) * call.heads * call.groups;
      call.eps = static_cast<float>(init_.eps);
      call.norm_first = init_.norm_before_gate;
      call.sigmoid = init_.sigmoid;
      if (call.width > 64 * N)
        launch("rms_norm_gated", norm_and_gate<T, N, true>, static_cast<unsigned>(call.items), kGatedThreads, 0,
               ctx.stream, call);
      else
        launch("rms_norm_gated", norm_and_gate<T, N, false>, blocks_for(call.items, kGatedThreads / 32), kGatedThreads,
               0, ctx.stream, call);
    });
  }
};

FK_IMPLEMENTATION(RMSNormGated, RMSNormGatedGroups, "cuda.groups", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
