// The parameters of a token in the scan (its time step before dt_proj, B and C), which x_proj makes of all channels. A
// product of its own would need a barrier of all blocks before it. Instead every block multiplies the channels it has
// by their columns of x_proj and adds its terms to the sums of all.
#pragma once

#include "backend/cuda/decode_megakernel/block.cuh"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/device/term_sums.cuh"
#include "backend/cuda/mamba_token/call.h"
#include "backend/cuda/mamba_token/channel_share.h"
#include "backend/cuda/mamba_token/eight_lanes.cuh"

namespace fk::cuda {

// Eight threads have the columns of a row, one for each unit of channels.
inline constexpr int kUnitLanes = 8, kMostBlockChannels = kUnitLanes * kUnitChannels;
inline constexpr int kRowsAtOnce = kTokenThreads / kUnitLanes;
inline constexpr int kParameterPasses = 5, kMostParameters = kParameterPasses * kRowsAtOnce;

// A block's columns of x_proj, in registers.
template <class T>
class ParameterTerms {
 public:
  // `first`: channel of this block, of which it has `count`.
  __device__ __forceinline__ ParameterTerms(const MambaTokenCall& call, const void* x_proj, int first, int count)
      : inside_(unit() < count / kUnitChannels) {
#pragma unroll
    for (int i = 0; i < kParameterPasses; ++i) {
      columns_[i] = make_uint4(0, 0, 0, 0);
      if (inside_ && row(i) < call.parameters())
        columns_[i] = load_early(static_cast<const T*>(x_proj) + static_cast<int64_t>(row(i)) * call.channels + first +
                                 kUnitChannels * unit());
    }
  }

  // `u`: the block's channels, in shared memory.
  __device__ __forceinline__ void add(const MambaTokenCall& call, const float* u, unsigned long long* sums) const {
#pragma unroll
    for (int i = 0; i < kParameterPasses; ++i) {
      if (i * kRowsAtOnce >= call.parameters()) break;
      const float sum = sum_of_eight(inside_ ? multiply_eight<T>(columns_[i], u + kUnitChannels * unit(), 0.0f) : 0.0f);
      if (unit() == 0 && row(i) < call.parameters()) add_term(sums, call.sums(), row(i), sum);
    }
  }

 private:
  static __device__ __forceinline__ int unit() { return static_cast<int>(threadIdx.x) % kUnitLanes; }
  static __device__ __forceinline__ int row(int i) {
    return static_cast<int>(threadIdx.x) / kUnitLanes + i * kRowsAtOnce;
  }

  bool inside_;
  uint4 columns_[kParameterPasses];
};

// Parameter i, rounded as the result of x_proj is. `sums`: of a layer, after all blocks have added.
template <class T>
__device__ __forceinline__ float sum_parameter(const MambaTokenCall& call, const unsigned long long* sums, int i) {
  return to_float(from_float<T>(sum_of_terms(sums, call.sums(), i, unusual_terms(sums, call.sums()))));
}

// The norms of the time step, B and C, each by one warp.
template <class T>
__device__ __forceinline__ void norm_parameters(const MambaTokenCall& call, const MambaTokenLayer& l,
                                                float* parameters) {
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  if (warp >= 3) return;
  const int width = warp == 0 ? call.rank : kMambaStates;
  float* row = parameters + (warp == 0 ? 0 : call.rank + (warp - 1) * kMambaStates);
  const auto* weight = static_cast<const T*>(warp == 0 ? l.dt_norm : warp == 1 ? l.b_norm : l.c_norm);
  float squares = 0;
  for (int i = lane; i < width; i += 32) squares = fmaf(row[i], row[i], squares);
  const float scale = 1.0f / sqrtf(reduce_warp<Sum>(squares) / static_cast<float>(width) + call.inner_eps);
  for (int i = lane; i < width; i += 32)
    row[i] = to_float(from_float<T>(row[i] * scale * (weight != nullptr ? to_float(weight[i]) : 1.0f)));
}

}  // namespace fk::cuda
