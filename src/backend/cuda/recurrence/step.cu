// A block keeps 32 columns of a head's state in registers, and goes through the tokens of its sequence: each state is
// read and written once, whatever the number of tokens.
#include "backend/cuda/recurrence/step.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/recurrence/device_recurrence.cuh"

namespace fk::cuda {
namespace {

constexpr int kStepThreads = 256, kStepColumns = 32;
constexpr int kColumnThreads = kStepColumns / 4;            // each has 4 neighbouring columns
constexpr int kRowThreads = kStepThreads / kColumnThreads;  // each has every 32nd row
constexpr int kStepWarps = kStepThreads / 32;
constexpr int kMostRows = 16;  // of a thread

// Adds up what the threads of a column have; every thread gets the sums. `scratch`: [warps][columns].
__device__ __forceinline__ float4 sum_over_rows(float4 part, float (*scratch)[kStepColumns]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = threadIdx.x % kColumnThreads * 4;
#pragma unroll
  for (int step = kColumnThreads; step < 32; step *= 2) {
    part.x += __shfl_xor_sync(kAllLanes, part.x, step);
    part.y += __shfl_xor_sync(kAllLanes, part.y, step);
    part.z += __shfl_xor_sync(kAllLanes, part.z, step);
    part.w += __shfl_xor_sync(kAllLanes, part.w, step);
  }
  __syncthreads();  // earlier readers are done
  if (lane < kColumnThreads) *reinterpret_cast<float4*>(&scratch[warp][column]) = part;
  __syncthreads();
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
  for (int w = 0; w < kStepWarps; ++w) {
    const float4 one = *reinterpret_cast<const float4*>(&scratch[w][column]);
    sum.x += one.x;
    sum.y += one.y;
    sum.z += one.z;
    sum.w += one.w;
  }
  return sum;
}

// kVector: columns can be read four at a time. Rows: of a thread.
template <class T, Delta kDelta, int kRows, bool kVector>
__global__ void __launch_bounds__(kStepThreads) recurrence_steps(const DeviceRecurrence<T> c) {
  __shared__ __align__(16) float scratch[kStepWarps][kStepColumns];
  let_next_start();
  wait_for_previous();
  const int s = blockIdx.z, h = blockIdx.y;
  const int column = blockIdx.x * kStepColumns + threadIdx.x % kColumnThreads * 4;
  const int first_row = threadIdx.x / kColumnThreads;
  const int64_t begin = c.begin(s), end = c.end(s);
  const int slot = c.slots[s];
  if (begin >= end) return;  // the whole block

  float* base = c.state + (static_cast<int64_t>(slot < 0 ? 0 : slot) * c.H + h) * c.K * c.V;
  float4 S[kRows];
#pragma unroll
  for (int j = 0; j < kRows; ++j) {
    const int i = first_row + j * kRowThreads;
    S[j] = make_float4(0, 0, 0, 0);
    if (i >= c.K || slot < 0) continue;
    const float* from = base + static_cast<int64_t>(i) * c.V + column;
    if constexpr (kVector) {
      if (column < c.V) S[j] = *reinterpret_cast<const float4*>(from);
    } else {
      if (column < c.V) S[j].x = from[0];
      if (column + 1 < c.V) S[j].y = from[1];
      if (column + 2 < c.V) S[j].z = from[2];
      if (column + 3 < c.V) S[j].w = from[3];
    }
  }

  for (int64_t t = begin; t < end; ++t) {
    const T *q = c.q.row(t, h, c.H), *k = c.k.row(t, h, c.H), *v = c.v.row(t, h, c.H);
    const T *a = kDelta == Delta::kVectors ? c.a.row(t, h, c.H) : nullptr,
            *b = kDelta == Delta::kVectors ? c.b.row(t, h, c.H) : nullptr;
    const float beta = kDelta == Delta::kBeta ? c.beta_of(t, h) : 1.0f;
    float4 value = make_float4(0, 0, 0, 0);
    if (column < c.V) value.x = to_float(v[column]);
    if (column + 1 < c.V) value.y = to_float(v[column + 1]);
    if (column + 2 < c.V) value.z = to_float(v[column + 2]);
    if (column + 3 < c.V) value.w = to_float(v[column + 3]);
    float decay[kRows], key[kRows], query[kRows], added[kRows];
    float4 removed = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      const int i = first_row + j * kRowThreads;
      const bool inside = i < c.K;
      decay[j] = inside ? expf(c.log_decay(t, h, i)) : 0.0f;
      key[j] = inside ? to_float(k[i]) : 0.0f;
      query[j] = inside ? to_float(q[i]) * c.scale : 0.0f;
      if constexpr (kDelta != Delta::kNone) {
        float taken = 0;
        if constexpr (kDelta == Delta::kBeta) {
          taken = decay[j] * key[j];
          added[j] = -beta * key[j];
          key[j] *= beta;
        } else {
          taken = inside ? to_float(a[i]) : 0.0f;
          added[j] = inside ? to_float(b[i]) : 0.0f;
        }
        removed.x = fmaf(taken, S[j].x, removed.x);
        removed.y = fmaf(taken, S[j].y, removed.y);
        removed.z = fmaf(taken, S[j].z, removed.z);
        removed.w = fmaf(taken, S[j].w, removed.w);
      }
    }
    if constexpr (kDelta != Delta::kNone) removed = sum_over_rows(removed, scratch);
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      S[j].x = fmaf(key[j], value.x, decay[j] * S[j].x);
      S[j].y = fmaf(key[j], value.y, decay[j] * S[j].y);
      S[j].z = fmaf(key[j], value.z, decay[j] * S[j].z);
      S[j].w = fmaf(key[j], value.w, decay[j] * S[j].w);
      if constexpr (kDelta != Delta::kNone) {
        S[j].x = fmaf(added[j], removed.x, S[j].x);
        S[j].y = fmaf(added[j], removed.y, S[j].y);
        S[j].z = fmaf(added[j], removed.z, S[j].z);
        S[j].w = fmaf(added[j], removed.w, S[j].w);
      }
      sum.x = fmaf(query[j], S[j].x, sum.x);
      sum.y = fmaf(query[j], S[j].y, sum.y);
      sum.z = fmaf(query[j], S[j].z, sum.z);
      sum.w = fmaf(query[j], S[j].w, sum.w);
    }
    sum = sum_over_rows(sum, scratch);
    if (threadIdx.x < kColumnThreads) {
      T* to = c.out + t * c.out_token + h * c.out_head + column;
      if (column < c.V) to[0] = from_float<T>(sum.x);
      if (column + 1 < c.V) to[1] = from_float<T>(sum.y);
      if (column + 2 < c.V) to[2] = from_float<T>(sum.z);
      if (column + 3 < c.V) to[3] = from_float<T>(sum.w);
    }
  }

  if (slot < 0) return;
#pragma unroll
  for (int j = 0; j < kRows; ++j) {
    const int i = first_row + j * kRowThreads;
    if (i >= c.K) continue;
    float* to = base + static_cast<int64_t>(i) * c.V + column;
    if constexpr (kVector) {
      if (column < c.V) *reinterpret_cast<float4*>(to) = S[j];
    } else {
      if (column < c.V) to[0] = S[j].x;
      if (column + 1 < c.V) to[1] = S[j].y;
      if (column + 2 < c.V) to[2] = S[j].z;
      if (column + 3 < c.V) to[3] = S[j].w;
    }
  }
}

template <class T, Delta kDelta, int kRows, bool kVector>
void start_steps(const DeviceRecurrence<T>& c, void* stream) {
  const dim3 grid(blocks_for(c.V, kStepColumns), static_cast<unsigned>(c.H), static_cast<unsigned>(c.sequences));
  launch("linear_recurrence", recurrence_steps<T, kDelta, kRows, kVector>, grid, dim3(kStepThreads), 0, stream, c);
}

}  // namespace

std::string_view refuse_recurrence(const LinearRecurrence& c) {
  const OptView q = c.q, k = c.k, v = c.v, out = c.out;
  if (std::string_view why = refuse_floats({&q, &k, &v, &c.a, &c.b, &out}); !why.empty()) return why;
  if (c.state.size(2) > kMostRows * kRowThreads) return "heads may have at most 512 keys";
  if (c.sequences() > 65535 || c.heads() > 65535) return "a grid has at most 65535 sequences and heads";
  return linear_recurrence::refuse(c);
}

void run_recurrence_steps(const LinearRecurrence& call, void* stream) {
  if (call.sequences() == 0) return;
  with_float_type(call.q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const DeviceRecurrence<T> c = on_device<T>(call);
    with_delta(delta_of(call), [&](auto delta) {
      constexpr Delta kDelta = decltype(delta)::value;
      const bool vector = c.V % 4 == 0 && reinterpret_cast<uintptr_t>(c.state) % 16 == 0;
      if (vector && c.K <= 2 * kRowThreads)
        start_steps<T, kDelta, 2, true>(c, stream);
      else if (vector && c.K <= 4 * kRowThreads)
        start_steps<T, kDelta, 4, true>(c, stream);
      else if (vector && c.K <= 8 * kRowThreads)
        start_steps<T, kDelta, 8, true>(c, stream);
      else  // of odd sizes, or very large
        start_steps<T, kDelta, kMostRows, false>(c, stream);
    });
  });
}

}  // namespace fk::cuda
