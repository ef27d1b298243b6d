// CausalConv1d on CUDA: a thread has a pack of channels and slides its window over a tile of tokens in registers.
#include "ops/l1/causal_conv1d.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/packs.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kConvThreads = 128;
constexpr int64_t kTileTokens = 32;  // of a thread: as many rows are read once more for the window as W - 1 of 32

template <class T>
struct ConvCall {
  const T* x;
  T* state;  // [slots, W - 1, C]
  const int32_t* slots;
  const int32_t* offsets;  // [S + 1], or null: sequence s has token s
  const T* weight;         // [C, W]
  const T* bias;           // or null
  T* out;
  int64_t x_stride, out_stride, state_stride;
  int64_t channels, tokens, num_slots;
  int sequences;
  int width;
  bool silu;

  __device__ int64_t first(int s) const { return offsets != nullptr ? offsets[s] : s; }
  __device__ int64_t last(int s) const { return offsets != nullptr ? offsets[s + 1] : s + 1; }
  // The window of a sequence, or null if it has none.
  __device__ T* window(int s) const {
    const int64_t slot = slots[s];
    return slot >= 0 && slot < num_slots ? state + slot * state_stride : nullptr;
  }
  // The sequence of token t: the last one that begins at t or before it and is not empty.
  __device__ int sequence_of(int64_t t) const {
    if (offsets == nullptr) return static_cast<int>(t);
    int low = 0, high = sequences;  // offsets[low] <= t < offsets[high]
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (offsets[middle] <= t)
        low = middle;
      else
        high = middle;
    }
    return low;
  }
};

template <class T, int N, int kMax>
struct ConvChannels {
  float weight[kMax][N];
  float bias[N];
  float seen[kMax][N];  // the last kMax tokens, the newest last; weights of tokens further back than W are zero

  __device__ void load_weights(const ConvCall<T>& call, int64_t c) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
      for (int k = 0; k < kMax; ++k) {
        const int from = k - (kMax - call.width);
        weight[k][i] = from >= 0 ? to_float(call.weight[(c + i) * call.width + from]) : 0.0f;
      }
      bias[i] = call.bias != nullptr ? to_float(call.bias[c + i]) : 0.0f;
    }
  }
  __device__ void push(const T* row) {
    const Pack<T, N> pack = load_pack<T, N>(row);
#pragma unroll
    for (int k = 0; k + 1 < kMax; ++k)
#pragma unroll
      for (int i = 0; i < N; ++i) seen[k][i] = seen[k + 1][i];
#pragma unroll
    for (int i = 0; i < N; ++i) seen[kMax - 1][i] = to_float(pack.at[i]);
  }
  __device__ void clear() {
#pragma unroll
    for (int k = 0; k < kMax; ++k)
#pragma unroll
      for (int i = 0; i < N; ++i) seen[k][i] = 0;
  }
  // The tokens before token t of sequence s.
  __device__ void load_window(const ConvCall<T>& call, int s, int64_t t, int64_t c) {
    clear();
    const int64_t first = call.first(s);
    const T* window = call.window(s);
#pragma unroll
    for (int k = 1; k < kMax; ++k) {
      const int64_t from = t - kMax + k;  // the oldest that fits first
      if (k < kMax - call.width + 1) continue;
      if (from >= first)
        push(call.x + from * call.x_stride + c);
      else if (window != nullptr)
        push(window + (call.width - 1 + from - first) * call.channels + c);
    }
  }
  __device__ void write(const ConvCall<T>& call, int64_t t, int64_t c) const {
    Pack<T, N> pack;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float sum = bias[i];
#pragma unroll
      for (int k = 0; k < kMax; ++k) sum = fmaf(weight[k][i], seen[k][i], sum);
      pack.at[i] = from_float<T>(call.silu ? sum / (1.0f + expf(-sum)) : sum);
    }
    store_pack<T, N>(call.out + t * call.out_stride + c, pack);
  }
};

// One token for each sequence: the window is read and written by one thread, so nothing has to wait.
template <class T, int N, int kMax>
__global__ void __launch_bounds__(kConvThreads) conv_update(const ConvCall<T> call) {
  let_next_start();
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * kConvThreads + threadIdx.x) * N;
  const int s = static_cast<int>(blockIdx.y);
  if (c >= call.channels) return;
  ConvChannels<T, N, kMax> channels;
  channels.load_weights(call, c);
  wait_for_previous();
  T* window = call.window(s);
  channels.clear();
  if (window != nullptr)
    for (int k = 0; k < call.width - 1; ++k) {
      const T* row = window + k * call.channels + c;
      channels.push(row);
      if (k > 0) store_pack<T, N>(window + (k - 1) * call.channels + c, load_pack<T, N>(row));
    }
  const T* x = call.x + s * call.x_stride + c;
  channels.push(x);
  if (window != nullptr) store_pack<T, N>(window + (call.width - 2) * call.channels + c, load_pack<T, N>(x));
  channels.write(call, s, c);
}

template <class T, int N, int kMax>
__global__ void __launch_bounds__(kConvThreads) conv_tiles(const ConvCall<T> call) {
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * kConvThreads + threadIdx.x) * N;
  const int64_t begin = blockIdx.y * kTileTokens;
  if (c >= call.channels) {
    wait_for_previous();
    return;
  }
  ConvChannels<T, N, kMax> channels;
  channels.load_weights(call, c);
  wait_for_previous();
  const int64_t end = begin + kTileTokens < call.tokens ? begin + kTileTokens : call.tokens;
  int s = call.sequence_of(begin);
  channels.load_window(call, s, begin, c);
  for (int64_t t = begin; t < end; ++t) {
    if (t >= call.last(s)) {
      while (s < call.sequences && t >= call.last(s)) ++s;
      if (s == call.sequences) return;  // tokens that belong to no sequence
      channels.load_window(call, s, t, c);
    }
    channels.push(call.x + t * call.x_stride + c);
    channels.write(call, t, c);
  }
}

// After all tiles have read the windows.
template <class T, int N>
__global__ void __launch_bounds__(kConvThreads) conv_keep_windows(const ConvCall<T> call) {
  wait_for_previous();
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * kConvThreads + threadIdx.x) * N;
  const int s = static_cast<int>(blockIdx.y);
  T* window = call.window(s);
  const int64_t first = call.first(s), count = call.last(s) - first;
  if (c >= call.channels || window == nullptr || count == 0) return;
  const int old = call.width - 1;
  for (int k = 0; k < old; ++k) {  // oldest first, so that a row is read before it is overwritten
    const int64_t from = count - old + k;
    const T* row = from >= 0 ? call.x + (first + from) * call.x_stride : window + (old + from) * call.channels;
    store_pack<T, N>(window + k * call.channels + c, load_pack<T, N>(row + c));
  }
}

template <class T, int N, int kMax>
void run_conv(const ConvCall<T>& call, void* stream) {
  const unsigned blocks = blocks_for(call.channels, static_cast<int64_t>(kConvThreads) * N);
  const auto S = static_cast<unsigned>(call.sequences);
  if (call.tokens == 0 || S == 0) return;
  if (call.offsets == nullptr)
    return launch("causal_conv1d", conv_update<T, N, kMax>, dim3(blocks, S), kConvThreads, 0, stream, call);
  launch("causal_conv1d", conv_tiles<T, N, kMax>, dim3(blocks, blocks_for(call.tokens, kTileTokens)), kConvThreads, 0,
         stream, call);
  launch("causal_conv1d", conv_keep_windows<T, N>, dim3(blocks, S), kConvThreads, 0, stream, call);
}

class CausalConv1dTiles final : public CausalConv1d {
 public:
  using CausalConv1d::CausalConv1d;

  std::string_view refuse(Args args) const override {
    if (args[2]->size(0) > 65535 || args[0]->size(0) / kTileTokens >= 65535)
      return "a call has at most 65535 sequences and 2 million tokens";
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[4]}) : why;
  }

  void forward(Context& ctx, View x, View conv_state, View state_slots, OptView cu_seqlens, View out) override {
    const bool packs = rows_fit_packs(x) && rows_fit_packs(conv_state) && rows_fit_packs(out);
    with_packs(x.dtype(), packs, [&](auto type, auto n) {
      using T = typename decltype(type)::type;
      constexpr int N = decltype(n)::value;
      ConvCall<T> call{};
      call.x = static_cast<const T*>(x.data());
      call.state = static_cast<T*>(conv_state.data());
      call.slots = state_slots.ptr<int32_t>();
      call.offsets = cu_seqlens ? cu_seqlens->ptr<int32_t>() : nullptr;
      call.weight = static_cast<const T*>(param(0).data());
      call.bias = init_.bias ? static_cast<const T*>(param(1).data()) : nullptr;
      call.out = static_cast<T*>(out.data());
      call.x_stride = x.stride(0);
      call.out_stride = out.stride(0);
      call.state_stride = conv_state.stride(0);
      call.channels = init_.dim;
      call.tokens = x.size(0);
      call.num_slots = conv_state.size(0);
      call.sequences = static_cast<int>(state_slots.size(0));
      call.width = static_cast<int>(init_.width);
      call.silu = init_.silu;
      if (init_.width <= 4)
        run_conv<T, N, 4>(call, ctx.stream);
      else
        run_conv<T, N, static_cast<int>(kMaxWidth)>(call, ctx.stream);
    });
  }
};

FK_IMPLEMENTATION(CausalConv1d, CausalConv1dTiles, "cuda.tiles", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
