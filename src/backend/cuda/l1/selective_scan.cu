// SelectiveScan on CUDA. Several tokens: 4 threads have the states of a channel in registers and walk over the tokens,
// which a block reads in tiles; the next tile is on its way while one is computed. One token: the same threads, no
// tiles.
#include "ops/l1/selective_scan.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/packs.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kScanThreads = 128;
constexpr int kSplit = 4;                             // threads of a channel
constexpr int kScanChannels = kScanThreads / kSplit;  // of a block
constexpr int kScanTile = 16;                         // tokens
constexpr float kLog2e = 1.44269504088896341f;

template <class T>
struct SelectiveCall {
  const T *u, *delta, *B, *C, *z;
  T* out;
  int64_t u_stride, delta_stride, B_stride, C_stride, z_stride, out_stride, state_stride;
  float* state;  // [slots, D, N]
  const int32_t* slots;
  const int32_t* offsets;  // [S + 1], or null: sequence s has token s
  const T *A_log, *skip, *bias;
  int64_t num_slots;
  int channels, states;  // D, N

  __device__ float* state_of(int s, int d) const {
    const int64_t slot = slots[s];
    return slot >= 0 && slot < num_slots ? state + slot * state_stride + static_cast<int64_t>(d) * states : nullptr;
  }
};

// log(1 + e^x), also far below zero, where it is e^x.
__device__ __forceinline__ float softplus_of(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }
__device__ __forceinline__ float silu_of(float x) { return x / (1.0f + expf(-x)); }

// Sum over the threads of a channel, which are neighbours.
__device__ __forceinline__ float sum_of_channel(float v) {
#pragma unroll
  for (int step = 1; step < kSplit; step *= 2) v += __shfl_xor_sync(kAllLanes, v, step);
  return v;
}

// Thread q of a channel has states q, q + 4, ...: kStates of them, those from N on being zero for ever.
template <class T, int kStates>
struct ChannelStates {
  float h[kStates], rate[kStates];  // rate: A log2(e)

  __device__ void load(const SelectiveCall<T>& call, int d, int q, const float* from) {
#pragma unroll
    for (int i = 0; i < kStates; ++i) {
      const int n = q + i * kSplit;
      const bool exists = d < call.channels && n < call.states;
      rate[i] = exists ? -expf(to_float(call.A_log[static_cast<int64_t>(d) * call.states + n])) * kLog2e : 0.0f;
      h[i] = exists && from != nullptr ? from[n] : 0.0f;
    }
  }
  __device__ void store(const SelectiveCall<T>& call, int q, float* to) const {
#pragma unroll
    for (int i = 0; i < kStates; ++i)
      if (q + i * kSplit < call.states) to[q + i * kSplit] = h[i];
  }
  // One token; B and C of state n are at b[n] and c[n].
  __device__ float step(float dt, float x, const float* b, const float* c, int q) {
    float sum = 0;
    const float input = dt * x;
#pragma unroll
    for (int i = 0; i < kStates; ++i) {
      h[i] = fmaf(exp2f(dt * rate[i]), h[i], input * b[q + i * kSplit]);
      sum = fmaf(h[i], c[q + i * kSplit], sum);
    }
    return sum;
  }
};

// One token for each sequence.
template <class T, int kStates>
__global__ void __launch_bounds__(kScanThreads) selective_step(const SelectiveCall<T> call) {
  __shared__ float b[kStates * kSplit], c[kStates * kSplit];
  let_next_start();
  const int q = threadIdx.x % kSplit, d = static_cast<int>(blockIdx.x) * kScanChannels + threadIdx.x / kSplit;
  const int s = static_cast<int>(blockIdx.y);
  ChannelStates<T, kStates> channel;
  float skip = 0, bias = 0;
  if (d < call.channels) {
    skip = to_float(call.skip[d]);
    bias = to_float(call.bias[d]);
  }
  wait_for_previous();
  for (int n = threadIdx.x; n < kStates * kSplit; n += kScanThreads) {
    b[n] = n < call.states ? to_float(call.B[s * call.B_stride + n]) : 0.0f;
    c[n] = n < call.states ? to_float(call.C[s * call.C_stride + n]) : 0.0f;
  }
  float* state = d < call.channels ? call.state_of(s, d) : nullptr;
  channel.load(call, d, q, state);
  const bool exists = d < call.channels;
  const float x = exists ? to_float(call.u[s * call.u_stride + d]) : 0.0f;
  const float dt = exists ? softplus_of(to_float(call.delta[s * call.delta_stride + d]) + bias) : 0.0f;
  __syncthreads();
  const float y = sum_of_channel(channel.step(dt, x, b, c, q)) + skip * x;
  if (!exists) return;
  if (state != nullptr) channel.store(call, q, state);
  if (q == 0) call.out[s * call.out_stride + d] = from_float<T>(y * silu_of(to_float(call.z[s * call.z_stride + d])));
}

template <class T, int kStates>
__global__ void __launch_bounds__(kScanThreads) selective_tiles(const SelectiveCall<T> call) {
  constexpr int kRow = kStates * kSplit;                             // of B and C
  constexpr int kInputs = kScanTile * kScanChannels / kScanThreads;  // of u, of delta and of z, a thread
  constexpr int kParameters = (kScanTile * kRow + kScanThreads - 1) / kScanThreads;  // of B and of C
  __shared__ float u[kScanTile][kScanChannels], dt[kScanTile][kScanChannels], y[kScanTile][kScanChannels];
  __shared__ float b[kScanTile][kRow], c[kScanTile][kRow];
  let_next_start();
  const int thread = threadIdx.x, q = thread % kSplit, lane = thread / kSplit;
  const int first_channel = static_cast<int>(blockIdx.x) * kScanChannels, d = first_channel + lane;
  const int s = static_cast<int>(blockIdx.y);
  // A thread loads and stores elements of one channel of the block, of every fourth token.
  const int own = thread % kScanChannels, own_d = first_channel + own, own_t = thread / kScanChannels;
  const bool own_exists = own_d < call.channels;
  const float bias = own_exists ? to_float(call.bias[own_d]) : 0.0f,
              skip = own_exists ? to_float(call.skip[own_d]) : 0.0f;
  wait_for_previous();
  const int64_t first = call.offsets[s], last = call.offsets[s + 1];
  if (first == last) return;
  float* state = d < call.channels ? call.state_of(s, d) : nullptr;
  ChannelStates<T, kStates> channel;
  channel.load(call, d, q, state);

  T next_u[kInputs], next_delta[kInputs], next_z[kInputs], next_b[kParameters], next_c[kParameters];
  auto fetch = [&](int64_t at) {
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      const int64_t t = at + own_t + i * (kScanThreads / kScanChannels);
      const bool exists = own_exists && t < last;
      next_u[i] = exists ? call.u[t * call.u_stride + own_d] : from_float<T>(0.0f);
      next_delta[i] = exists ? call.delta[t * call.delta_stride + own_d] : from_float<T>(0.0f);
      next_z[i] = exists ? call.z[t * call.z_stride + own_d] : from_float<T>(0.0f);
    }
#pragma unroll
    for (int i = 0; i < kParameters; ++i) {
      const int item = thread + i * kScanThreads, n = item % kRow;
      const int64_t t = at + item / kRow;
      const bool exists = item < kScanTile * kRow && n < call.states && t < last;
      next_b[i] = exists ? call.B[t * call.B_stride + n] : from_float<T>(0.0f);
      next_c[i] = exists ? call.C[t * call.C_stride + n] : from_float<T>(0.0f);
    }
  };
  fetch(first);
  for (int64_t at = first; at < last; at += kScanTile) {
    float gate[kInputs];
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      const int t = own_t + i * (kScanThreads / kScanChannels);
      u[t][own] = to_float(next_u[i]);
      dt[t][own] = softplus_of(to_float(next_delta[i]) + bias);
      gate[i] = silu_of(to_float(next_z[i]));
    }
#pragma unroll
    for (int i = 0; i < kParameters; ++i) {
      const int item = thread + i * kScanThreads;
      if (item < kScanTile * kRow) {
        b[item / kRow][item % kRow] = to_float(next_b[i]);
        c[item / kRow][item % kRow] = to_float(next_c[i]);
      }
    }
    __syncthreads();
    if (at + kScanTile < last) fetch(at + kScanTile);
    const int tokens = last - at < kScanTile ? static_cast<int>(last - at) : kScanTile;
    for (int t = 0; t < tokens; ++t) {
      const float sum = sum_of_channel(channel.step(dt[t][lane], u[t][lane], b[t], c[t], q));
      if (q == 0) y[t][lane] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      const int t = own_t + i * (kScanThreads / kScanChannels);
      if (own_exists && t < tokens)
        call.out[(at + t) * call.out_stride + own_d] = from_float<T>((y[t][own] + skip * u[t][own]) * gate[i]);
    }
    // The next tile overwrites u, which this thread alone has read here, and b and c, which all have read before the
    // last barrier; y is written after the next one.
  }
  if (state != nullptr) channel.store(call, q, state);
}

template <class T, int kStates>
void run_scan(const SelectiveCall<T>& call, int64_t sequences, void* stream) {
  const dim3 grid(blocks_for(call.channels, kScanChannels), static_cast<unsigned>(sequences));
  if (call.offsets == nullptr)
    launch("selective_scan", selective_step<T, kStates>, grid, kScanThreads, 0, stream, call);
  else
    launch("selective_scan", selective_tiles<T, kStates>, grid, kScanThreads, 0, stream, call);
}

class SelectiveScanTiles final : public SelectiveScan {
 public:
  using SelectiveScan::SelectiveScan;

  std::string_view refuse(Args args) const override {
    if (init_.state_size > 64) return "it has at most 64 states a channel";
    if (args[6]->size(0) > 65535) return "a call has at most 65535 sequences";
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[2], &args[3], &args[4], &args[8]}) : why;
  }

  void forward(Context& ctx, View u, View delta, View B, View C, View z, View ssm_state, View state_slots,
               OptView cu_seqlens, View out) override {
    if (u.size(0) == 0) return;
    with_float_type(u.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      auto at = [](const View& v) { return static_cast<const T*>(v.data()); };
      SelectiveCall<T> call{};
      call.u = at(u);
      call.delta = at(delta);
      call.B = at(B);
      call.C = at(C);
      call.z = at(z);
      call.out = static_cast<T*>(out.data());
      call.u_stride = u.stride(0);
      call.delta_stride = delta.stride(0);
      call.B_stride = B.stride(0);
      call.C_stride = C.stride(0);
      call.z_stride = z.stride(0);
      call.out_stride = out.stride(0);
      call.state_stride = ssm_state.stride(0);
      call.state = ssm_state.ptr<float>();
      call.slots = state_slots.ptr<int32_t>();
      call.offsets = cu_seqlens ? cu_seqlens->ptr<int32_t>() : nullptr;
      call.A_log = at(A_log());
      call.skip = at(skip());
      call.bias = at(dt_bias());
      call.num_slots = ssm_state.size(0);
      call.channels = static_cast<int>(init_.dim);
      call.states = static_cast<int>(init_.state_size);
      if (init_.state_size <= 16)
        run_scan<T, 4>(call, state_slots.size(0), ctx.stream);
      else
        run_scan<T, 16>(call, state_slots.size(0), ctx.stream);
    });
  }
};

FK_IMPLEMENTATION(SelectiveScan, SelectiveScanTiles, "cuda.tiles", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
