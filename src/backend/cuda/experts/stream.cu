// A block has 16 rows of the matrix of one expert, and its warps split the k dimension, as in matmul/stream_weights.cu:
// W goes directly from memory to registers and to mma.m16n8k16, whose 8 columns are rows of x.
//
// The block of feature tile i and slot j takes the j-th expert that has rows at all, so the matrices of the others are
// not read.
#include "backend/cuda/experts/stream.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/experts/epilogue.cuh"
#include "backend/cuda/experts/row_tile.cuh"

namespace fk::cuda {
namespace {

constexpr int kTileRows = 16;  // of W
constexpr int kColumns = 8;    // rows of x that one product takes
constexpr int kChunk = 32;     // elements of a row that four threads load at once: 64 bytes
constexpr int kAllRows = 1 << 30;

// One way to split the work.
template <int kWarps_, int kUnroll_, int kGroups_>
struct Cut {
  static constexpr int kWarps = kWarps_;    // of a block
  static constexpr int kUnroll = kUnroll_;  // chunks a warp takes at once
  static constexpr int kGroups = kGroups_;  // of 8 rows of x for which W is read once
  static constexpr int kRows = kColumns * kGroups;
  static constexpr int kRound = kWarps * kUnroll * kChunk;
};

__device__ __forceinline__ uint4 load_streamed(const void* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

template <ExpertsEpilogue kEpilogue>
constexpr int features_per_block() {
  return kEpilogue == ExpertsEpilogue::kPlain ? kTileRows : kTileRows / 2;
}

// The row of an expert's matrix for a row of a block's tile: in a gated product the first half of the tile is gate
// rows, the second half the matching up rows.
template <ExpertsEpilogue kEpilogue>
__device__ __forceinline__ int weight_row(const ExpertsCall& call, int first_feature, int row_in_tile) {
  constexpr int kFeatures = features_per_block<kEpilogue>();
  const int feature = min(first_feature + row_in_tile % kFeatures, call.features - 1);
  const FeatureRows rows = feature_rows<kEpilogue>(call, feature);
  return row_in_tile < kFeatures ? rows.gate : rows.up;
}

template <class T, ExpertsEpilogue kEpilogue, class C>
__global__ void __launch_bounds__(32 * C::kWarps) stream_expert_rows(const __grid_constant__ ExpertsCall call) {
  constexpr int kFeatures = features_per_block<kEpilogue>();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
  const int first_feature = blockIdx.x * kFeatures;
  const int weight_rows = kEpilogue == ExpertsEpilogue::kPlain ? call.features : 2 * call.features;
  __shared__ float parts[C::kWarps][kTileRows][C::kRows + 1];
  let_next_start();
  wait_for_previous();
  const RowTile all = row_tile<kAllRows>(call.offsets, call.experts, 1, blockIdx.y);
  if (all.expert < 0) return;  // the whole block

  const T* rows[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64_t row =
        static_cast<int64_t>(all.expert) * weight_rows + weight_row<kEpilogue>(call, first_feature, group + 8 * h);
    rows[h] = static_cast<const T*>(call.weight) + row * call.length + 8 * quad;
  }
  uint4 w[2][2][C::kUnroll];
  auto load_weights = [&](int buffer, int at) {
#pragma unroll
    for (int u = 0; u < C::kUnroll; ++u) {
      const int k = at + u * kChunk;
      const bool inside = k + 8 * quad < call.length;
#pragma unroll
      for (int h = 0; h < 2; ++h) w[buffer][h][u] = inside ? load_streamed(rows[h] + k) : uint4{0, 0, 0, 0};
    }
  };

  for (int first = all.first; first < all.last; first += C::kRows) {
    int at = warp * C::kUnroll * kChunk;
    load_weights(0, at);
    const T* x[C::kGroups];
    bool exists[C::kGroups];
    float sum[C::kGroups][4] = {};
#pragma unroll
    for (int g = 0; g < C::kGroups; ++g) {
      const int place = first + g * kColumns + group;
      exists[g] = place < all.last;
      const int row = call.sorted[min(place, all.last - 1)] / call.pairs_per_row;
      x[g] = static_cast<const T*>(call.x) + row * call.x_stride + 8 * quad;
    }
    auto multiply = [&](int buffer, int from) {
#pragma unroll
      for (int u = 0; u < C::kUnroll; ++u) {
        const int k = from + u * kChunk;
        const uint4 &low = w[buffer][0][u], &high = w[buffer][1][u];
#pragma unroll
        for (int g = 0; g < C::kGroups; ++g) {
          uint4 v{0, 0, 0, 0};
          if (exists[g] && k + 8 * quad < call.length) v = *reinterpret_cast<const uint4*>(x[g] + k);
          multiply_tile<T>(sum[g], low.x, high.x, low.y, high.y, v.x, v.y);
          multiply_tile<T>(sum[g], low.z, high.z, low.w, high.w, v.z, v.w);
        }
      }
    };
    // Two named buffers, not an array: registers cannot be indexed.
    while (at < call.length) {
      load_weights(1, at + C::kRound);
      multiply(0, at);
      at += C::kRound;
      if (at >= call.length) break;
      load_weights(0, at + C::kRound);
      multiply(1, at);
      at += C::kRound;
    }

    // Every warp holds a part of each sum.
#pragma unroll
    for (int g = 0; g < C::kGroups; ++g)
#pragma unroll
      for (int i = 0; i < 4; ++i) parts[warp][group + 8 * (i / 2)][g * kColumns + 2 * quad + i % 2] = sum[g][i];
    __syncthreads();
    const int count = min(C::kRows, all.last - first);
    for (int i = threadIdx.x; i < kFeatures * count; i += 32 * C::kWarps) {
      const int in_block = i % kFeatures, place = i / kFeatures, feature = first_feature + in_block;
      if (feature >= call.features) continue;
      auto total = [&](int row_in_tile, int row) {
        float whole = bias_of<T>(call, weight_rows, all.expert, row);
#pragma unroll
        for (int p = 0; p < C::kWarps; ++p) whole += parts[p][row_in_tile][place];
        return whole;
      };
      const FeatureRows of = feature_rows<kEpilogue>(call, feature);
      float value = total(in_block, of.gate);
      if constexpr (kEpilogue != ExpertsEpilogue::kPlain)
        value = gated<kEpilogue, T>(call, value, total(in_block + kFeatures, of.up));
      static_cast<T*>(call.out)[call.sorted[first + place] * call.out_stride + feature] = from_float<T>(value);
    }
    __syncthreads();  // before the next rows overwrite the parts
  }
}

template <class T, ExpertsEpilogue kEpilogue, class C>
void launch_cut(const ExpertsCall& call, void* stream) {
  const int experts = call.pairs < call.experts ? call.pairs : call.experts;
  launch("stream_expert_rows", stream_expert_rows<T, kEpilogue, C>,
         dim3(blocks_for(call.features, features_per_block<kEpilogue>()), static_cast<unsigned>(experts)),
         32 * C::kWarps, 0, stream, call);
}

template <class T, ExpertsEpilogue kEpilogue>
void launch_rows(const ExpertsCall& call, void* stream) {
  // Rows that are too short for eight warps are split over four.
  const bool short_rows = call.length <= 1024;
  if (call.tokens() <= kColumns)
    return short_rows ? launch_cut<T, kEpilogue, Cut<4, 4, 1>>(call, stream)
                      : launch_cut<T, kEpilogue, Cut<8, 2, 1>>(call, stream);
  return short_rows ? launch_cut<T, kEpilogue, Cut<4, 2, 2>>(call, stream)
                    : launch_cut<T, kEpilogue, Cut<8, 2, 2>>(call, stream);
}

}  // namespace

std::string_view stream_experts_refusal(const ExpertsCall& call) {
  if (call.experts > 65535) return "there are too many experts for a grid";
  return experts_packs_refusal(call);
}

void stream_experts(const ExpertsCall& call, void* stream) {
  if (call.pairs == 0) return;
  with_experts_epilogue(call, [&]<ExpertsEpilogue kEpilogue>() {
    if (call.dtype == DType::kBF16)
      launch_rows<__nv_bfloat16, kEpilogue>(call, stream);
    else
      launch_rows<__half, kEpilogue>(call, stream);
  });
}

}  // namespace fk::cuda
