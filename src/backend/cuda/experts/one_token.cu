// As in stream.cu, rows of a matrix go from memory to registers, 16 at a time, and to mma.m16n8k16. Of its 8 columns
// one is used: the memory is what limits. A block has one tile of rows. Where few tiles would leave multiprocessors
// idle at the end, blocks are as many as run at once, with equal shares of the rows; the first loads of a tile are on
// their way while the sums of the one before it are added up.
#include "backend/cuda/experts/one_token.h"

#include <algorithm>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/multiprocessors.h"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/l1/activations.cuh"
#include "backend/cuda/l1/swigluoai.cuh"

namespace fk::cuda {
namespace {

constexpr int kExpertTile = 16;             // rows of a matrix that a block multiplies at once
constexpr int kGateTile = kExpertTile / 2;  // features of a gated product: a gate row and an up row each
constexpr int kStep = 32;                   // elements of a row that four threads load at once: 64 bytes
constexpr int kStepsAtOnce = 4;             // of a warp
constexpr int kRun = kStepsAtOnce * kStep;  // elements of its 16 rows that a warp loads at once
constexpr int kGateWarps = 8;               // of a block
constexpr int kGateBlocks = 2;              // on a multiprocessor
constexpr int kMostDownWarps = 16;          // of a block, which has a multiprocessor for itself

__device__ __forceinline__ uint4 load_expert_row(const void* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

// One warp's share of the product of 16 rows of a matrix and x: the runs `first`, first + stride, ... of their length.
// Lane l has rows l / 4 and l / 4 + 8 and elements 8 * (l % 4) of every 32.
template <class T>
class RowsTimesVector {
 public:
  __device__ RowsTimesVector(int length, int first, int stride)
      : length_(length),
        in_step_(8 * (static_cast<int>(threadIdx.x) % 4)),
        first_(first * kRun),
        stride_(stride * kRun) {}

  // Begins with the first loads of new rows; null: zeros. x need not be known yet.
  __device__ __forceinline__ void begin(const T* low, const T* high) {
    low_ = low;
    high_ = high;
    load(buffer_[0], first_);
  }

  // The sums of rows l / 4 and l / 4 + 8 are in lanes whose number is a multiple of 4.
  __device__ __forceinline__ float2 multiply(const T* x) {
    const bool has_x = threadIdx.x % 32 < 4;  // column 0 of the product; the other columns are zero
    float sum[4] = {};
    int at = first_;
    while (at < length_) {
      load(buffer_[1], at + stride_);
      add(sum, buffer_[0], has_x ? x : nullptr, at);
      at += stride_;
      if (at >= length_) break;
      load(buffer_[0], at + stride_);
      add(sum, buffer_[1], has_x ? x : nullptr, at);
      at += stride_;
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
      const int k = at + i * kStep + in_step_;
      to.low[i] = low_ != nullptr && k < length_ ? load_expert_row(low_ + k) : uint4{0, 0, 0, 0};
      to.high[i] = high_ != nullptr && k < length_ ? load_expert_row(high_ + k) : uint4{0, 0, 0, 0};
    }
  }

  __device__ __forceinline__ void add(float (&sum)[4], const Buffer& w, const T* x, int at) {
#pragma unroll
    for (int i = 0; i < kStepsAtOnce; ++i) {
      const int k = at + i * kStep + in_step_;
      uint4 v{0, 0, 0, 0};
      if (x != nullptr && k < length_) v = *reinterpret_cast<const uint4*>(x + k);
      multiply_tile<T>(sum, w.low[i].x, w.high[i].x, w.low[i].y, w.high[i].y, v.x, v.y);
      multiply_tile<T>(sum, w.low[i].z, w.high[i].z, w.low[i].w, w.high[i].w, v.z, v.w);
    }
  }

  const T *low_ = nullptr, *high_ = nullptr;
  int length_, in_step_, first_, stride_;
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

// The features of all experts of the token follow each other; a block has `share` of them, of two experts where these
// meet.
template <class T, ExpertGate kGate>
__global__ void __launch_bounds__(32 * kGateWarps, kGateBlocks)
    one_token_gate_up(const __grid_constant__ OneTokenExperts c, const int share) {
  __shared__ float parts[2][kGateWarps][kExpertTile];  // of tiles in turn
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int begin = static_cast<int>(blockIdx.x) * share, end = min(begin + share, c.top_k * c.features);
  // In this order: the next kernel reads the ids before it waits for this one.
  wait_for_previous();
  let_next_start();
  auto gate_row = [&](int feature) { return kGate == ExpertGate::kSwigluOAI ? 2 * feature : feature; };
  auto up_row = [&](int feature) { return kGate == ExpertGate::kSwigluOAI ? 2 * feature + 1 : feature + c.features; };
  auto first_row = [&](int place) { return static_cast<int64_t>(expert_of(c, place / c.features)) * 2 * c.features; };
  RowsTimesVector<T> rows(c.hidden, warp, kGateWarps);
  auto begin_tile = [&](int first) {
    const int place = first + lane / 4;
    if (place >= end) return rows.begin(nullptr, nullptr);
    const T* matrix = static_cast<const T*>(c.gate_up) + first_row(place) * c.hidden;
    const int feature = place % c.features;
    rows.begin(matrix + static_cast<int64_t>(gate_row(feature)) * c.hidden,
               matrix + static_cast<int64_t>(up_row(feature)) * c.hidden);
  };
  if (begin < end) begin_tile(begin);
  for (int first = begin, half = 0; first < end; first += kGateTile, half ^= 1) {
    const float2 sums = rows.multiply(static_cast<const T*>(c.x));
    if (first + kGateTile < end) begin_tile(first + kGateTile);
    if (lane % 4 == 0) {
      parts[half][warp][lane / 4] = sums.x;
      parts[half][warp][lane / 4 + kGateTile] = sums.y;
    }
    __syncthreads();
    const int in_tile = static_cast<int>(threadIdx.x), place = first + in_tile;
    if (in_tile >= kGateTile || place >= end) continue;
    auto total = [&](int of_tile, int row) {
      float all =
          c.gate_up_bias == nullptr ? 0 : to_float(static_cast<const T*>(c.gate_up_bias)[first_row(place) + row]);
#pragma unroll
      for (int w = 0; w < kGateWarps; ++w) all += parts[half][w][of_tile];
      return all;
    };
    const int feature = place % c.features;
    static_cast<T*>(c.between)[place] = from_float<T>(
        gated_value<T, kGate>(c, total(in_tile, gate_row(feature)), total(in_tile + kGateTile, up_row(feature))));
  }
}

// A block has `share` rows of the result. A warp has one expert of the token, or one of `splits` parts of its length;
// with many experts, several of them in turn.
template <class T>
__global__ void __launch_bounds__(32 * kMostDownWarps, 1)
    one_token_down(const __grid_constant__ OneTokenExperts c, const int splits, const int share) {
  __shared__ float parts[2][kMostDownWarps][kExpertTile];  // of turns
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, at_once = static_cast<int>(blockDim.x) / 32 / splits;
  const int begin = static_cast<int>(blockIdx.x) * share, end = min(begin + share, c.hidden);
  RowsTimesVector<T> rows(c.features, warp % splits, splits);
  auto begin_tile = [&](int first, int pair) {
    if (pair >= c.top_k) return;
    const T* matrix = static_cast<const T*>(c.down) + static_cast<int64_t>(expert_of(c, pair)) * c.hidden * c.features;
    auto row = [&](int at) { return at < end ? matrix + static_cast<int64_t>(at) * c.features : nullptr; };
    rows.begin(row(first + lane / 4), row(first + lane / 4 + 8));
  };
  let_next_start();
  int first = begin, pairs = 0;  // of this turn: rows, and experts
  // Reads the ids before the wait: one_token_gate_up, which must be the launch before this one, has waited for them
  // before it let this one start.
  if (first < end) begin_tile(first, warp / splits);
  wait_for_previous();
  float out = 0;  // of row `first` + the thread's number
  for (int half = 0; first < end; half ^= 1) {
    const int pair = pairs + warp / splits;
    float2 sums{0, 0};
    if (pair < c.top_k)
      sums = rows.multiply(static_cast<const T*>(c.between) + static_cast<int64_t>(pair) * c.features);
    const bool last_pairs = pairs + at_once >= c.top_k;
    const int next_first = last_pairs ? first + kExpertTile : first, next_pairs = last_pairs ? 0 : pairs + at_once;
    if (next_first < end) begin_tile(next_first, next_pairs + warp / splits);
    if (lane % 4 == 0) {
      parts[half][warp][lane / 4] = sums.x;
      parts[half][warp][lane / 4 + 8] = sums.y;
    }
    __syncthreads();
    const int row = first + static_cast<int>(threadIdx.x);
    if (threadIdx.x < kExpertTile && row < end) {
      for (int i = 0; i < at_once && pairs + i < c.top_k; ++i) {
        float value = 0;
        if (c.down_bias != nullptr)
          value = to_float(
              static_cast<const T*>(c.down_bias)[static_cast<int64_t>(expert_of(c, pairs + i)) * c.hidden + row]);
        for (int part = 0; part < splits; ++part) value += parts[half][i * splits + part][threadIdx.x];
        // Rounded, as moe_sum reads it.
        out = fmaf(c.weights[pairs + i], to_float(from_float<T>(value)), out);
      }
      if (last_pairs) {
        static_cast<T*>(c.out)[row] = from_float<T>(out);
        out = 0;
      }
    }
    first = next_first;
    pairs = next_pairs;
  }
}

template <class T>
void launch_one_token(const OneTokenExperts& c, void* stream) {
  auto share_of = [](int items, int blocks) { return (items + blocks - 1) / blocks; };
  // Large shares were slower on an H200 than a block for each tile, which read neighbouring rows at the same time.
  auto rows_of_block = [&](int items, int blocks, int tile) {
    constexpr int kMostTiles = 3;
    const int share = share_of(items, blocks);
    return share > kMostTiles * tile ? tile : share;
  };
  const int features = c.top_k * c.features,
            gate_share = rows_of_block(features, kGateBlocks * multiprocessors(), kGateTile);
  auto gate_up = [&](auto* kernel) {
    launch("one_token_gate_up", kernel, blocks_for(features, gate_share), 32 * kGateWarps, 0, stream, c, gate_share);
  };
  if (c.gate == ExpertGate::kSilu)
    gate_up(one_token_gate_up<T, ExpertGate::kSilu>);
  else if (c.gate == ExpertGate::kGeluTanh)
    gate_up(one_token_gate_up<T, ExpertGate::kGeluTanh>);
  else
    gate_up(one_token_gate_up<T, ExpertGate::kSwigluOAI>);
  const int at_once = std::min(c.top_k, kMostDownWarps), runs = share_of(c.features, kRun);
  const int splits = std::clamp(kMostDownWarps / at_once, 1, runs),
            down_share = rows_of_block(c.hidden, multiprocessors(), kExpertTile);
  launch("one_token_down", one_token_down<T>, blocks_for(c.hidden, down_share),
         static_cast<unsigned>(32 * at_once * splits), 0, stream, c, splits, down_share);
}

}  // namespace

std::string_view one_token_experts_refusal(const OneTokenExperts& c) {
  if (c.dtype != DType::kBF16 && c.dtype != DType::kF16) return "it multiplies bf16 and f16";
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
