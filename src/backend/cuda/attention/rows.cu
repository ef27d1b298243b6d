// A warp per query and head. Scores: a key per lane. Values: every 32nd element of the head per lane.
#include "backend/cuda/attention/rows.h"

#include "backend/cuda/attention/keys.cuh"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"

namespace fk::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxHeadSize = 512;
constexpr int kPerLane = kMaxHeadSize / 32;

// The sequence whose new tokens include token t: the last one that starts at or before it.
__device__ int sequence_of(const AttentionCall& call, int t) {
  int low = 0, high = call.sequences - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (call.cu_seqlens_q[middle] <= t)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

template <class T>
__global__ void __launch_bounds__(32 * kWarps) attend_rows(AttentionCall call) {
  wait_for_previous();
  let_next_start();
  __shared__ float queries[kWarps][kMaxHeadSize];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int t = blockIdx.x, head = blockIdx.y * kWarps + warp;
  if (head >= call.heads) return;
  const int kv_head = head / (call.heads / call.kv_heads);
  int s = t, length, position;
  if (call.cu_seqlens_q != nullptr) {
    s = sequence_of(call, t);
    length = call.cu_seqlens_k[s + 1] - call.cu_seqlens_k[s];
    position = length - (call.cu_seqlens_q[s + 1] - call.cu_seqlens_q[s]) + t - call.cu_seqlens_q[s];
  } else {
    length = call.seq_lens != nullptr ? call.seq_lens[s] : call.cu_seqlens_k[s + 1] - call.cu_seqlens_k[s];
    position = length - 1;
  }
  const VisibleKeys keys = visible_keys(call, position, length);
  const T* q = static_cast<const T*>(call.q) + t * call.q_strides.token + head * call.q_strides.head;
  for (int i = lane; i < call.head_size; i += 32) queries[warp][i] = to_float(q[i]);
  __syncwarp();

  float largest = -INFINITY, sum = 0, mean[kPerLane] = {};
  for (int first = keys.first; first < keys.last; first += 32) {
    const int j = first + lane;
    float score = -INFINITY;
    int64_t row = 0;
    if (j < keys.last) {
      row = key_row(call, s, j, call.page_bits);
      const T* k = static_cast<const T*>(call.k) + row * call.k_strides.token + kv_head * call.k_strides.head;
      float dot = 0;
      for (int i = 0; i < call.head_size; ++i) dot += queries[warp][i] * to_float(k[i]);
      score = capped(dot * call.scale, call.soft_cap);
    }
    const float new_largest = fmaxf(largest, reduce_warp<Max>(score));
    const float shrink = expf(largest - new_largest);
    const float weight = j < keys.last ? expf(score - new_largest) : 0.0f;
    sum = sum * shrink + reduce_warp<Sum>(weight);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) mean[i] *= shrink;
    const int count = min(32, keys.last - first);
    for (int k = 0; k < count; ++k) {
      const float w = __shfl_sync(kAllLanes, weight, k);
      const int64_t r = __shfl_sync(kAllLanes, row, k);
      const T* v = static_cast<const T*>(call.v) + r * call.v_strides.token + kv_head * call.v_strides.head;
#pragma unroll
      for (int i = 0; i < kPerLane; ++i)
        if (lane + 32 * i < call.head_size) mean[i] += w * to_float(v[lane + 32 * i]);
    }
    largest = new_largest;
  }
  if (call.sinks != nullptr) sum += expf(call.sinks[head] - largest);
  T* out = static_cast<T*>(call.out) + t * call.out_strides.token + head * call.out_strides.head;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i)
    if (lane + 32 * i < call.head_size) out[lane + 32 * i] = from_float<T>(sum > 0 ? mean[i] / sum : 0.0f);
}

}  // namespace

std::string_view attention_rows_refusal(const AttentionCall& call) {
  if (call.dtype != DType::kBF16 && call.dtype != DType::kF16 && call.dtype != DType::kF32)
    return "it attends in bf16, f16 and f32";
  if (call.head_size > kMaxHeadSize) return "heads may have 512 elements at most";
  if (call.page_bits < 0) return "pages must hold a power of two of tokens";
  return {};
}

void attention_rows(const AttentionCall& call, void* stream) {
  with_float_type(call.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch("attend_rows", attend_rows<T>, dim3(static_cast<unsigned>(call.tokens), blocks_for(call.heads, kWarps)),
           32 * kWarps, 0, stream, call);
  });
}

}  // namespace fk::cuda
