// SSDScan on CUDA, token by token. One token: a warp reads, updates and writes rows of the state. Several: 4 threads
// have a row of the state in registers, and B, C and x of a tile of tokens are in shared memory.
#include "ops/l1/ssd_scan.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/ssd_call.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kSsdThreads = 256;
constexpr int kSsdWarps = kSsdThreads / 32;
constexpr int kSsdMaxStates = 256;
constexpr int kRowsInFlight = 4;  // of a warp, so that its reads overlap

// N states at once: 4 where rows lie on 16 bytes.
template <int N>
struct StatePack {
  float at[N];
};

template <int N>
__device__ __forceinline__ StatePack<N> load_states(const float* from) {
  StatePack<N> pack;
  if constexpr (N == 4) {
    const float4 raw = *reinterpret_cast<const float4*>(from);
    pack.at[0] = raw.x, pack.at[1] = raw.y, pack.at[2] = raw.z, pack.at[3] = raw.w;
  } else {
    pack.at[0] = *from;
  }
  return pack;
}
template <int N>
__device__ __forceinline__ void store_states(float* to, const StatePack<N>& pack) {
  if constexpr (N == 4)
    *reinterpret_cast<float4*>(to) = make_float4(pack.at[0], pack.at[1], pack.at[2], pack.at[3]);
  else
    *to = pack.at[0];
}

// One token of a sequence: a block for each head, in `pieces` parts of its rows.
template <class T, int N>
__global__ void __launch_bounds__(kSsdThreads) ssd_step(const SsdCall<T> call, int pieces) {
  __shared__ float b[kSsdMaxStates], c[kSsdMaxStates];
  let_next_start();
  const int head = static_cast<int>(blockIdx.x) / pieces, piece = static_cast<int>(blockIdx.x) % pieces;
  const int s = static_cast<int>(blockIdx.y), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float A = -expf(to_float(call.A_log[head])), skip = to_float(call.skip[head]);
  wait_for_previous();
  const int group = call.group_of(head);
  for (int n = threadIdx.x; n < call.states; n += kSsdThreads) {
    b[n] = to_float(call.B[s * call.B_stride + group + n]);
    c[n] = to_float(call.C[s * call.C_stride + group + n]);
  }
  const float dt = call.step_of(s, head), decay = expf(dt * A);
  float* state = call.state_of(s, head);
  const T* x = call.x + s * call.x_stride + static_cast<int64_t>(head) * call.rows;
  T* out = call.out + s * call.out_stride + static_cast<int64_t>(head) * call.rows;
  __syncthreads();
  for (int first = (piece * kSsdWarps + warp) * kRowsInFlight; first < call.rows;
       first += pieces * kSsdWarps * kRowsInFlight) {
    float input[kRowsInFlight], sum[kRowsInFlight] = {};
#pragma unroll
    for (int r = 0; r < kRowsInFlight; ++r) input[r] = first + r < call.rows ? to_float(x[first + r]) : 0.0f;
    for (int n = lane * N; n < call.states; n += 32 * N) {
      StatePack<N> h[kRowsInFlight];
#pragma unroll
      for (int r = 0; r < kRowsInFlight; ++r) {
        h[r] = {};
        if (state != nullptr && first + r < call.rows)
          h[r] = load_states<N>(state + static_cast<int64_t>(first + r) * call.states + n);
      }
#pragma unroll
      for (int r = 0; r < kRowsInFlight; ++r) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
          h[r].at[k] = fmaf(decay, h[r].at[k], dt * input[r] * b[n + k]);
          sum[r] = fmaf(h[r].at[k], c[n + k], sum[r]);
        }
        if (state != nullptr && first + r < call.rows)
          store_states<N>(state + static_cast<int64_t>(first + r) * call.states + n, h[r]);
      }
    }
#pragma unroll
    for (int r = 0; r < kRowsInFlight; ++r) {
      const float y = reduce_warp<Sum>(sum[r]);
      if (lane == 0 && first + r < call.rows) out[first + r] = from_float<T>(fmaf(skip, input[r], y));
    }
  }
}

constexpr int kSsdTile = 16;                       // tokens
constexpr int kSsdParts = 4;                       // threads of a row
constexpr int kSsdRows = kSsdThreads / kSsdParts;  // of a block

// kChunks pieces of 16 states of a row, 4 of each for a thread; states from N on are zero for ever.
template <class T, int kChunks>
__global__ void __launch_bounds__(kSsdThreads) ssd_tokens(const SsdCall<T> call, int pieces) {
  constexpr int kStates = kChunks * 16;
  constexpr int kInputs = kSsdTile * kSsdRows / kSsdThreads;     // of x, a thread
  constexpr int kParameters = kSsdTile * kStates / kSsdThreads;  // of B and of C
  __shared__ alignas(16) float b[kSsdTile][kStates];
  __shared__ alignas(16) float c[kSsdTile][kStates];
  __shared__ float x[kSsdTile][kSsdRows], y[kSsdTile][kSsdRows], dt[kSsdTile], decay[kSsdTile];
  let_next_start();
  const int thread = threadIdx.x, part = thread % kSsdParts, lane = thread / kSsdParts;
  const int head = static_cast<int>(blockIdx.x) / pieces, first_row = static_cast<int>(blockIdx.x) % pieces * kSsdRows;
  const int s = static_cast<int>(blockIdx.y), row = first_row + lane;
  const float A = -expf(to_float(call.A_log[head])), skip = to_float(call.skip[head]);
  wait_for_previous();
  const int64_t first = call.offsets[s], last = call.offsets[s + 1];
  if (first == last) return;
  const int group = call.group_of(head);
  float* state = call.state_of(s, head);
  float h[kChunks][4];
#pragma unroll
  for (int i = 0; i < kChunks; ++i)
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int n = (i * kSsdParts + part) * 4 + k;
      const bool exists = state != nullptr && row < call.rows && n < call.states;
      h[i][k] = exists ? state[static_cast<int64_t>(row) * call.states + n] : 0.0f;
    }

  T next_x[kInputs], next_b[kParameters], next_c[kParameters];
  float next_dt = 0;
  auto fetch = [&](int64_t at) {
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      const int item = thread + i * kSsdThreads, r = first_row + item % kSsdRows;
      const int64_t t = at + item / kSsdRows;
      next_x[i] = r < call.rows && t < last ? call.x[t * call.x_stride + static_cast<int64_t>(head) * call.rows + r]
                                            : from_float<T>(0.0f);
    }
#pragma unroll
    for (int i = 0; i < kParameters; ++i) {
      const int item = thread + i * kSsdThreads, n = item % kStates;
      const int64_t t = at + item / kStates;
      const bool exists = n < call.states && t < last;
      next_b[i] = exists ? call.B[t * call.B_stride + group + n] : from_float<T>(0.0f);
      next_c[i] = exists ? call.C[t * call.C_stride + group + n] : from_float<T>(0.0f);
    }
    if (thread < kSsdTile && at + thread < last) next_dt = call.step_of(at + thread, head);
  };
  fetch(first);
  for (int64_t at = first; at < last; at += kSsdTile) {
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      const int item = thread + i * kSsdThreads;
      x[item / kSsdRows][item % kSsdRows] = to_float(next_x[i]);
    }
#pragma unroll
    for (int i = 0; i < kParameters; ++i) {
      const int item = thread + i * kSsdThreads;
      b[item / kStates][item % kStates] = to_float(next_b[i]);
      c[item / kStates][item % kStates] = to_float(next_c[i]);
    }
    if (thread < kSsdTile) {
      dt[thread] = next_dt;
      decay[thread] = expf(next_dt * A);
    }
    __syncthreads();
    if (at + kSsdTile < last) fetch(at + kSsdTile);
    const int tokens = last - at < kSsdTile ? static_cast<int>(last - at) : kSsdTile;
    for (int t = 0; t < tokens; ++t) {
      const float a = decay[t], input = dt[t] * x[t][lane];
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        const float4 bs = *reinterpret_cast<const float4*>(&b[t][(i * kSsdParts + part) * 4]);
        const float4 cs = *reinterpret_cast<const float4*>(&c[t][(i * kSsdParts + part) * 4]);
        h[i][0] = fmaf(a, h[i][0], input * bs.x);
        h[i][1] = fmaf(a, h[i][1], input * bs.y);
        h[i][2] = fmaf(a, h[i][2], input * bs.z);
        h[i][3] = fmaf(a, h[i][3], input * bs.w);
        sum = fmaf(h[i][0], cs.x, sum);
        sum = fmaf(h[i][1], cs.y, sum);
        sum = fmaf(h[i][2], cs.z, sum);
        sum = fmaf(h[i][3], cs.w, sum);
      }
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      sum += __shfl_xor_sync(kAllLanes, sum, 2);
      if (part == 0) y[t][lane] = fmaf(skip, x[t][lane], sum);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      const int item = thread + i * kSsdThreads, t = item / kSsdRows, r = first_row + item % kSsdRows;
      if (t < tokens && r < call.rows)
        call.out[(at + t) * call.out_stride + static_cast<int64_t>(head) * call.rows + r] =
            from_float<T>(y[t][item % kSsdRows]);
    }
    // The next tile overwrites x, b and c, which all threads have read before the last barrier; y is written after the
    // next one.
  }
  if (state == nullptr || row >= call.rows) return;
#pragma unroll
  for (int i = 0; i < kChunks; ++i)
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int n = (i * kSsdParts + part) * 4 + k;
      if (n < call.states) state[static_cast<int64_t>(row) * call.states + n] = h[i][k];
    }
}

template <class T, int kChunks>
void run_tokens(const SsdCall<T>& call, int64_t sequences, void* stream) {
  const int pieces = static_cast<int>(blocks_for(call.rows, kSsdRows));
  launch("ssd_scan", ssd_tokens<T, kChunks>,
         dim3(static_cast<unsigned>(call.heads * pieces), static_cast<unsigned>(sequences)), kSsdThreads, 0, stream,
         call, pieces);
}

class SSDScanTokens final : public SSDScan {
 public:
  using SSDScan::SSDScan;

  std::string_view refuse(Args args) const override {
    if (init_.state_size > kSsdMaxStates) return "it has rows of at most 256 states";
    if (args[5]->size(0) > 65535) return "a call has at most 65535 sequences";
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[2], &args[3], &args[7]}) : why;
  }

  void forward(Context& ctx, View x, View dt, View B, View C, View ssm_state, View state_slots, OptView cu_seqlens,
               View out) override {
    if (x.size(0) == 0) return;
    with_float_type(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      const auto call =
          ssd_call<T>(init_, {x, dt, B, C, ssm_state, state_slots, cu_seqlens, out, A_log(), skip(), dt_bias()});
      const int64_t S = state_slots.size(0);
      if (call.offsets == nullptr) return step(call, S, ctx.stream);
      if (call.states <= 16) return run_tokens<T, 1>(call, S, ctx.stream);
      if (call.states <= 32) return run_tokens<T, 2>(call, S, ctx.stream);
      if (call.states <= 64) return run_tokens<T, 4>(call, S, ctx.stream);
      if (call.states <= 128) return run_tokens<T, 8>(call, S, ctx.stream);
      run_tokens<T, 16>(call, S, ctx.stream);
    });
  }

 private:
  template <class T>
  static void step(const SsdCall<T>& call, int64_t sequences, void* stream) {
    // Few sequences: the rows of a head are divided over two blocks, so that every multiprocessor has work.
    const int rows_of_block = kSsdWarps * kRowsInFlight, all = static_cast<int>(blocks_for(call.rows, rows_of_block));
    const int pieces = sequences * call.heads < 512 ? all : 1;
    const dim3 grid(static_cast<unsigned>(call.heads * pieces), static_cast<unsigned>(sequences));
    if (call.states % 4 == 0 && call.state_stride % 4 == 0 && reinterpret_cast<uintptr_t>(call.state) % 16 == 0)
      launch("ssd_scan", ssd_step<T, 4>, grid, kSsdThreads, 0, stream, call, pieces);
    else
      launch("ssd_scan", ssd_step<T, 1>, grid, kSsdThreads, 0, stream, call, pieces);
  }
};

FK_IMPLEMENTATION(SSDScan, SSDScanTokens, "cuda.tokens", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
