// A warp per query and head. Scores: a key per lane. Values: every 32nd element of the latent per lane.
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/latent/call.h"
#include "backend/cuda/latent/query_rows.cuh"

namespace fk::cuda {
namespace {

constexpr int kRowWarps = 4;
constexpr int kMostLatent = 512, kMostEntry = 1024;
constexpr int kLatentPerLane = kMostLatent / 32;

template <class T>
__global__ void __launch_bounds__(32 * kRowWarps) latent_rows_kernel(LatentCall call) {
  wait_for_previous();
  let_next_start();
  __shared__ float queries[kRowWarps][kMostEntry];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int t = blockIdx.x, head = blockIdx.y * kRowWarps + warp;
  if (head >= call.heads) return;
  const int entry = call.latent + call.rope, s = latent_sequence(call, t);
  const T* nope = static_cast<const T*>(call.q_nope) + t * call.nope_token + head * call.nope_head;
  const T* pe = static_cast<const T*>(call.q_pe) + t * call.pe_token + head * call.pe_head;
  for (int i = lane; i < call.latent; i += 32) queries[warp][i] = to_float(nope[i]);
  for (int i = lane; i < call.rope; i += 32) queries[warp][call.latent + i] = to_float(pe[i]);
  __syncwarp();

  const int32_t* picks = call.indices != nullptr ? call.indices + t * call.index_stride : nullptr;
  const int keys = picks != nullptr ? call.num_indices : latent_keys(call, s, t);
  float largest = -INFINITY, sum = 0, mean[kLatentPerLane] = {};
  for (int first = 0; first < keys; first += 32) {
    const int j = first + lane;
    int key = j < keys ? (picks != nullptr ? picks[j] : j) : -1;
    float score = -INFINITY;
    int64_t row = 0;
    if (key >= 0) {
      row = latent_offset(call, latent_entry(call, s, key));
      const T* k = static_cast<const T*>(call.cache) + row;
      float dot = 0;
      for (int i = 0; i < entry; ++i) dot += queries[warp][i] * to_float(k[i]);
      score = dot * call.scale;
    }
    const float new_largest = fmaxf(largest, reduce_warp<Max>(score));
    const float safe = new_largest == -INFINITY ? 0.0f : new_largest;
    const float shrink = expf(largest - safe), weight = key >= 0 ? expf(score - safe) : 0.0f;
    sum = sum * shrink + reduce_warp<Sum>(weight);
#pragma unroll
    for (int i = 0; i < kLatentPerLane; ++i) mean[i] *= shrink;
    for (int k = 0; k < min(32, keys - first); ++k) {
      const float w = __shfl_sync(kAllLanes, weight, k);
      const int64_t r = __shfl_sync(kAllLanes, row, k);
      const bool seen = __shfl_sync(kAllLanes, key, k) >= 0;
      if (!seen) continue;
      const T* v = static_cast<const T*>(call.cache) + r;
#pragma unroll
      for (int i = 0; i < kLatentPerLane; ++i)
        if (lane + 32 * i < call.latent) mean[i] += w * to_float(v[lane + 32 * i]);
    }
    largest = new_largest;
  }
  T* out = static_cast<T*>(call.out) + t * call.out_token + head * call.out_head;
#pragma unroll
  for (int i = 0; i < kLatentPerLane; ++i)
    if (lane + 32 * i < call.latent) out[lane + 32 * i] = from_float<T>(largest == -INFINITY ? 0.0f : mean[i] / sum);
  if (call.lse != nullptr && lane == 0)
    call.lse[head * call.lse_head + t] = largest == -INFINITY ? -INFINITY : largest + logf(sum);
}

}  // namespace

std::string_view latent_rows_refusal(const LatentCall& call) {
  if (call.dtype != DType::kBF16 && call.dtype != DType::kF16 && call.dtype != DType::kF32)
    return "it attends in bf16, f16 and f32";
  if (call.latent > kMostLatent || call.latent + call.rope > kMostEntry)
    return "latents may have 512 elements at most, and entries 1024";
  return {};
}

void latent_rows(const LatentCall& call, void* stream) {
  if (call.tokens == 0) return;
  with_float_type(call.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch("latent_rows", latent_rows_kernel<T>,
           dim3(static_cast<unsigned>(call.tokens), blocks_for(call.heads, kRowWarps)), 32 * kRowWarps, 0, stream,
           call);
  });
}

}  // namespace fk::cuda
