// As in stream.cu, a block has 16 rows of a matrix, which go from memory to registers and to mma.m16n8k16. Of its 8
// columns one is used: the memory is what limits.
#include "backend/cuda/experts/one_token.h"

#include <algorithm>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/l1/activations.cuh"
#include "backend/cuda/l1/swigluoai.cuh"

namespace fk::cuda {
namespace {

constexpr int kExpertTile = 16;             // rows of a matrix that a block has
constexpr int kGateTile = kExpertTile / 2;  // features of a gated product: a gate row and an up row each
constexpr int kStep = 32;                   // elements of a row that four threads load at once: 64 bytes
constexpr int kStepsAtOnce = 4;             // of a warp
constexpr int kRun = kStepsAtOnce * kStep;  // elements of its 16 rows that a warp loads at once
constexpr int kGateWarps = 8;               // of a block
constexpr int kMostDownWarps = 16;          // likewise

__device__ __forceinline__ uint4 load_expert_row(const void* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

// One warp's share of the product of 16 rows of a matrix and x: the runs `first`, first + stride, ... of their length.
// Lane l has rows l / 4 and l / 4 + 8 (`low`, `high`: where they begin) and elements 8 * (l % 4) of every 32.
template <class T>
class RowsTimesVector {
 public:
  __device__ RowsTimesVector(const T* low, const T* high, int length, int first, int stride)
      : low_(low + 8 * (threadIdx.x % 4)),
        high_(high + 8 * (threadIdx.x % 4)),
        length_(length),
        in_step_(8 * (static_cast<int>(threadIdx.x) % 4)),
        at_(first * kRun),
        stride_(stride * kRun) {}

  // Before x is known.
  __device__ __forceinline__ void load_first() { load(buffer_[0], at_); }

  // After load_first(). The sums of rows l / 4 and l / 4 + 8 are in lanes whose number is a multiple of 4.
  __device__ __forceinline__ float2 multiply(const T* x) {
    const bool has_x = threadIdx.x % 32 < 4;  // column 0 of the product; the other columns are zero
    x += 8 * (threadIdx.x % 4);
    float sum[4] = {};
    while (at_ < length_) {
      load(buffer_[1], at_ + stride_);
      add(sum, buffer_[0], has_x ? x : nullptr);
      at_ += stride_;
      if (at_ >= length_) break;
      load(buffer_[0], at_ + stride_);
      add(sum, buffer_[1], has_x ? x : nullptr);
      at_ += stride_;
    }
    return {sum[0], sum[2]};
  }

 private:
  struct Buffer {
    uint4 low[kStepsAtOnce], high[kStepsAtOnce];
  };

  __device__ __forceinline__ void load(Buffer& to, int at) {
#pragma unroll
    for (int i = 0; i < kStepsAtOnce; ++i) {
      const bool inside = at + i * kStep + in_step_ < length_;
      to.low[i] = inside ? load_expert_row(low_ + at + i * kStep) : uint4{0, 0, 0, 0};
      to.high[i] = inside ? load_expert_row(high_ + at + i * kStep) : uint4{0, 0, 0, 0};
    }
  }

  __device__ __forceinline__ void add(float (&sum)[4], const Buffer& w, const T* x) {
#pragma unroll
    for (int i = 0; i < kStepsAtOnce; ++i) {
      uint4 v{0, 0, 0, 0};
      if (x != nullptr && at_ + i * kStep + in_step_ < length_)
        v = *reinterpret_cast<const uint4*>(x + at_ + i * kStep);
      multiply_tile<T>(sum, w.low[i].x, w.high[i].x, w.low[i].y, w.high[i].y, v.x, v.y);
      multiply_tile<T>(sum, w.low[i].z, w.high[i].z, w.low[i].w, w.high[i].w, v.z, v.w);
    }
  }

  const T *low_, *high_;
  int length_, in_step_, at_, stride_;
  Buffer buffer_[2];
};

// Ids outside the experts would be read outside the matrices.
__device__ __forceinline__ int expert_of(const OneTokenExperts& c, int pair) {
  return min(max(c.ids[pair], 0), c.experts - 1);
}

// Of sums with their bias. Rounded first, as the result of a separate product would be.
template <class T, ExpertGate kGate>
__device__ __forceinline__ float gated_value(const OneTokenExperts& c, float gate, float up) {
  gate = to_float(from_float<T>(gate));
  up = to_float(from_float<T>(up));
  if constexpr (kGate == ExpertGate::kSwigluOAI)
    return swigluoai<T>(gate, up, {c.alpha, c.limit});
  else if constexpr (kGate == ExpertGate::kGeluTanh)
    return GeluTanh::of<T>(gate) * up;
  else
    return Silu::of<T>(gate) * up;
}

template <class T, ExpertGate kGate>
__global__ void __launch_bounds__(32 * kGateWarps) one_token_gate_up(const __grid_constant__ OneTokenExperts c) {
  __shared__ float parts[kGateWarps][kExpertTile];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, pair = blockIdx.y;
  // In this order: the next kernel reads the ids before it waits for this one.
  wait_for_previous();
  let_next_start();
  const int expert = expert_of(c, pair);
  auto gate_row = [&](int feature) { return kGate == ExpertGate::kSwigluOAI ? 2 * feature : feature; };
  auto up_row = [&](int feature) { return kGate == ExpertGate::kSwigluOAI ? 2 * feature + 1 : feature + c.features; };
  const int64_t first_row = static_cast<int64_t>(expert) * 2 * c.features;
  const int feature = min(static_cast<int>(blockIdx.x) * kGateTile + lane / 4, c.features - 1);
  const T* matrix = static_cast<const T*>(c.gate_up);
  RowsTimesVector<T> rows(matrix + (first_row + gate_row(feature)) * c.hidden,
                          matrix + (first_row + up_row(feature)) * c.hidden, c.hidden, warp, kGateWarps);
  rows.load_first();
  const float2 sums = rows.multiply(static_cast<const T*>(c.x));
  if (lane % 4 == 0) {
    parts[warp][lane / 4] = sums.x;
    parts[warp][lane / 4 + kGateTile] = sums.y;
  }
  __syncthreads();
  const int mine = static_cast<int>(blockIdx.x) * kGateTile + static_cast<int>(threadIdx.x);
  if (threadIdx.x >= kGateTile || mine >= c.features) return;
  auto total = [&](int place, int row) {
    float all = c.gate_up_bias == nullptr ? 0 : to_float(static_cast<const T*>(c.gate_up_bias)[first_row + row]);
#pragma unroll
    for (int w = 0; w < kGateWarps; ++w) all += parts[w][place];
    return all;
  };
  const int place = static_cast<int>(threadIdx.x);
  static_cast<T*>(c.between)[static_cast<int64_t>(pair) * c.features + mine] =
      from_float<T>(gated_value<T, kGate>(c, total(place, gate_row(mine)), total(place + kGateTile, up_row(mine))));
}

// A warp has one expert of the token, or one of `splits` parts of its length; with many experts, several of them in
// turn.
template <class T>
__global__ void __launch_bounds__(32 * kMostDownWarps)
    one_token_down(const __grid_constant__ OneTokenExperts c, const int splits) {
  __shared__ float parts[kMostDownWarps][kExpertTile];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, at_once = static_cast<int>(blockDim.x) / 32 / splits;
  const int first = blockIdx.x * kExpertTile;
  auto rows_of = [&](int pair) {
    const T* matrix = static_cast<const T*>(c.down) + static_cast<int64_t>(expert_of(c, pair)) * c.hidden * c.features;
    auto row = [&](int in_tile) {
      return matrix + static_cast<int64_t>(min(first + in_tile, c.hidden - 1)) * c.features;
    };
    return RowsTimesVector<T>(row(lane / 4), row(lane / 4 + 8), c.features, warp % splits, splits);
  };
  let_next_start();
  float out = 0;  // of row `first` + the thread's number
  for (int pairs = 0; pairs < c.top_k; pairs += at_once) {
    const int pair = pairs + warp / splits;
    float2 sums{0, 0};
    if (pair < c.top_k) {
      RowsTimesVector<T> rows = rows_of(pair);
      rows.load_first();
      if (pairs == 0) wait_for_previous();
      sums = rows.multiply(static_cast<const T*>(c.between) + static_cast<int64_t>(pair) * c.features);
    }
    if (lane % 4 == 0) {
      parts[warp][lane / 4] = sums.x;
      parts[warp][lane / 4 + 8] = sums.y;
    }
    __syncthreads();
    const int row = first + static_cast<int>(threadIdx.x);
    if (threadIdx.x < kExpertTile && row < c.hidden) {
      for (int i = 0; i < at_once && pairs + i < c.top_k; ++i) {
        float value = 0;
        if (c.down_bias != nullptr)
          value = to_float(
              static_cast<const T*>(c.down_bias)[static_cast<int64_t>(expert_of(c, pairs + i)) * c.hidden + row]);
        for (int part = 0; part < splits; ++part) value += parts[i * splits + part][threadIdx.x];
        // Rounded, as moe_sum reads it.
        out = fmaf(c.weights[pairs + i], to_float(from_float<T>(value)), out);
      }
    }
    __syncthreads();  // before the next experts overwrite the parts
  }
  const int row = first + static_cast<int>(threadIdx.x);
  wait_for_previous();  // for warps that had no expert
  if (threadIdx.x < kExpertTile && row < c.hidden) static_cast<T*>(c.out)[row] = from_float<T>(out);
}

template <class T>
void launch_one_token(const OneTokenExperts& c, void* stream) {
  const dim3 grid(blocks_for(c.features, kGateTile), static_cast<unsigned>(c.top_k));
  auto gate_up = [&](auto* kernel) { launch("one_token_gate_up", kernel, grid, 32 * kGateWarps, 0, stream, c); };
  if (c.gate == ExpertGate::kSilu)
    gate_up(one_token_gate_up<T, ExpertGate::kSilu>);
  else if (c.gate == ExpertGate::kGeluTanh)
    gate_up(one_token_gate_up<T, ExpertGate::kGeluTanh>);
  else
    gate_up(one_token_gate_up<T, ExpertGate::kSwigluOAI>);
  const int at_once = std::min(c.top_k, kMostDownWarps);
  const int runs = (c.features + kRun - 1) / kRun;
  const int splits = std::clamp(kMostDownWarps / at_once, 1, runs);
  launch("one_token_down", one_token_down<T>, blocks_for(c.hidden, kExpertTile),
         static_cast<unsigned>(32 * at_once * splits), 0, stream, c, splits);
}

}  // namespace

std::string_view one_token_experts_refusal(const OneTokenExperts& c) {
  if (c.dtype != DType::kBF16 && c.dtype != DType::kF16) return "it multiplies bf16 and f16";
  if (c.top_k > 65535) return "there are too many experts for a grid";
  auto odd = [](const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 != 0; };
  if (c.hidden % 8 != 0 || c.features % 8 != 0 || odd(c.x) || odd(c.gate_up) || odd(c.down) || odd(c.between))
    return "rows must start on 16 bytes";
  return {};
}

void run_one_token_experts(const OneTokenExperts& c, void* stream) {
  if (c.dtype == DType::kBF16)
    launch_one_token<__nv_bfloat16>(c, stream);
  else
    launch_one_token<__half>(c, stream);
}

}  // namespace fk::cuda
