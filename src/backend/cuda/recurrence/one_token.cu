// A block has 32 columns of a head's state, and reads and writes them once, 16 bytes at a time. Its loads are in flight
// while a thread for each row of the state computes what the row is multiplied by, into shared memory.
//
// With S' = diag(d) S + b (a^T S) + k v^T the output S'^T q is (d q)^T S + (q b) (a^T S) + (q k) v, so both sums over
// rows are taken in one pass.
#include "backend/cuda/recurrence/one_token.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/recurrence/device_recurrence.cuh"
#include "backend/cuda/recurrence/step.h"

namespace fk::cuda {
namespace {

constexpr int kTokenColumns = 32;
constexpr int kTokenColumnThreads = kTokenColumns / 4;  // each has 4 neighbouring columns
constexpr int kMostTokenKeys = 256;

__device__ __forceinline__ void add_scaled(float4& sum, float factor, const float4& v) {
  sum.x = fmaf(factor, v.x, sum.x);
  sum.y = fmaf(factor, v.y, sum.y);
  sum.z = fmaf(factor, v.z, sum.z);
  sum.w = fmaf(factor, v.w, sum.w);
}
__device__ __forceinline__ float4 scaled(float factor, const float4& v) {
  return make_float4(factor * v.x, factor * v.y, factor * v.z, factor * v.w);
}
__device__ __forceinline__ void add_lane(float4& v, int step) {
  v.x += __shfl_xor_sync(kAllLanes, v.x, step);
  v.y += __shfl_xor_sync(kAllLanes, v.y, step);
  v.z += __shfl_xor_sync(kAllLanes, v.z, step);
  v.w += __shfl_xor_sync(kAllLanes, v.w, step);
}

// A thread has every kThreads / 8th row, kRows of them, and prepares one: few threads with many rows each have more
// bytes in flight.
template <class T, Delta kDelta, int kThreads, int kRows>
__global__ void __launch_bounds__(kThreads) recurrence_token(const __grid_constant__ DeviceRecurrence<T> c) {
  constexpr int kTokenRowThreads = kThreads / kTokenColumnThreads, kTokenWarps = kThreads / 32, kTokenKeys = kThreads;
  __shared__ float4 rows[kTokenKeys];  // decay, key, query, a
  __shared__ float added[kTokenKeys];  // b
  __shared__ float2 products[kTokenWarps];
  __shared__ __align__(16) float scratch[2][kTokenWarps][kTokenColumns];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int t = blockIdx.z, h = blockIdx.y;
  const int column = blockIdx.x * kTokenColumns + tid % kTokenColumnThreads * 4;
  const int first_row = tid / kTokenColumnThreads;
  const bool inside = column < c.V;
  let_next_start();
  wait_for_previous();

  const int slot = c.slots[t];
  float* base = c.state + (static_cast<int64_t>(slot < 0 ? 0 : slot) * c.H + h) * c.K * c.V + column;
  float4 S[kRows];
#pragma unroll
  for (int j = 0; j < kRows; ++j) {
    const int i = first_row + j * kTokenRowThreads;
    S[j] = make_float4(0, 0, 0, 0);
    if (slot >= 0 && inside && i < c.K)
      S[j] = __ldcs(reinterpret_cast<const float4*>(base + static_cast<int64_t>(i) * c.V));
  }
  float4 value = make_float4(0, 0, 0, 0);
  if (inside) {
    const T* v = c.v.row(t, h, c.H) + column;
    value = make_float4(to_float(v[0]), to_float(v[1]), to_float(v[2]), to_float(v[3]));
  }

  float with_added = 0, with_key = 0;
  if (tid < c.K) {
    const float decay = expf(c.log_decay(t, h, tid)), query = to_float(c.q.row(t, h, c.H)[tid]) * c.scale;
    float key = to_float(c.k.row(t, h, c.H)[tid]), taken = 0, b = 0;
    if constexpr (kDelta == Delta::kBeta) {
      const float beta = c.beta_of(t, h);
      taken = decay * key;
      b = -beta * key;
      key *= beta;
    } else if constexpr (kDelta == Delta::kVectors) {
      taken = to_float(c.a.row(t, h, c.H)[tid]);
      b = to_float(c.b.row(t, h, c.H)[tid]);
    }
    rows[tid] = make_float4(decay, key, query, taken);
    added[tid] = b;
    with_added = query * b;
    with_key = query * key;
  }
  with_key = reduce_warp<Sum>(with_key);
  if constexpr (kDelta != Delta::kNone) with_added = reduce_warp<Sum>(with_added);
  if (lane == 0) products[warp] = make_float2(with_added, with_key);
  __syncthreads();

  float4 removed = make_float4(0, 0, 0, 0), kept = make_float4(0, 0, 0, 0);
#pragma unroll
  for (int j = 0; j < kRows; ++j) {
    const int i = first_row + j * kTokenRowThreads;
    if (i >= c.K) continue;
    const float4 row = rows[i];
    if constexpr (kDelta != Delta::kNone) add_scaled(removed, row.w, S[j]);
    S[j] = scaled(row.x, S[j]);
    add_scaled(kept, row.z, S[j]);
    add_scaled(S[j], row.y, value);
  }
#pragma unroll
  for (int step = kTokenColumnThreads; step < 32; step *= 2) {
    add_lane(kept, step);
    if constexpr (kDelta != Delta::kNone) add_lane(removed, step);
  }
  if (lane < kTokenColumnThreads) {
    *reinterpret_cast<float4*>(&scratch[0][warp][4 * lane]) = kept;
    if constexpr (kDelta != Delta::kNone) *reinterpret_cast<float4*>(&scratch[1][warp][4 * lane]) = removed;
  }
  __syncthreads();
  auto total = [&](int which) {
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int w = 0; w < kTokenWarps; ++w)
      add_scaled(sum, 1.0f, *reinterpret_cast<const float4*>(&scratch[which][w][tid % kTokenColumnThreads * 4]));
    return sum;
  };
  if constexpr (kDelta != Delta::kNone) removed = total(1);
  if (slot >= 0 && inside) {
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      const int i = first_row + j * kTokenRowThreads;
      if (i >= c.K) continue;
      if constexpr (kDelta != Delta::kNone) add_scaled(S[j], added[i], removed);
      __stcs(reinterpret_cast<float4*>(base + static_cast<int64_t>(i) * c.V), S[j]);
    }
  }
  if (first_row != 0 || !inside) return;
  kept = total(0);
  with_added = with_key = 0;
#pragma unroll
  for (int w = 0; w < kTokenWarps; ++w) {
    with_added += products[w].x;
    with_key += products[w].y;
  }
  add_scaled(kept, with_key, value);
  if constexpr (kDelta != Delta::kNone) add_scaled(kept, with_added, removed);
  T* to = c.out + t * c.out_token + h * c.out_head + column;
  to[0] = from_float<T>(kept.x);
  to[1] = from_float<T>(kept.y);
  to[2] = from_float<T>(kept.z);
  to[3] = from_float<T>(kept.w);
}

template <class T, Delta kDelta, int kThreads, int kRows>
void start_token(const DeviceRecurrence<T>& c, void* stream) {
  const dim3 grid(blocks_for(c.V, kTokenColumns), static_cast<unsigned>(c.H), static_cast<unsigned>(c.sequences));
  launch("recurrence_token", recurrence_token<T, kDelta, kThreads, kRows>, grid, dim3(kThreads), 0, stream, c);
}

}  // namespace

std::string_view refuse_one_token(const LinearRecurrence& c) {
  if (std::string_view why = refuse_recurrence(c); !why.empty()) return why;
  if (c.cu_seqlens) return "it takes one token of every sequence";
  if (c.state.size(2) > kMostTokenKeys) return "heads may have at most 256 keys";
  if (c.state.size(3) % 4 != 0 || reinterpret_cast<uintptr_t>(c.state.data()) % 16 != 0)
    return "rows of the state must start on 16 bytes";
  return {};
}

void run_one_token(const LinearRecurrence& call, void* stream) {
  if (call.sequences() == 0) return;
  with_float_type(call.q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const DeviceRecurrence<T> c = on_device<T>(call);
    with_delta(delta_of(call), [&](auto delta) {
      constexpr Delta kDelta = decltype(delta)::value;
      if (c.K <= 64)
        start_token<T, kDelta, 128, 4>(c, stream);
      else if (c.K <= 128)
        start_token<T, kDelta, 128, 8>(c, stream);
      else
        start_token<T, kDelta, 256, 8>(c, stream);
    });
  });
}

}  // namespace fk::cuda
