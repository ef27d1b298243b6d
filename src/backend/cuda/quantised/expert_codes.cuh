// Few rows times the matrices of their experts, in codes: as experts/stream.cu does it with matrices of elements, a
// block has 16 rows of one matrix, and the block of slot j takes the j-th expert that has rows at all.
//
// The matrices of all experts are packed as one, so each must have whole octets of rows.
#pragma once

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/experts/epilogue.cuh"
#include "backend/cuda/experts/row_tile.cuh"
#include "backend/cuda/quantised/octet_product.cuh"

namespace fk::cuda {

// Which rows of an expert's matrix a block has, and where those of a feature are in its tile.
template <ExpertsEpilogue kEpilogue>
struct ExpertTile {
  static constexpr int kFeatures = kEpilogue == ExpertsEpilogue::kPlain ? 16 : 8;

  __device__ static int low_octet(int, int tile) { return kEpilogue == ExpertsEpilogue::kSiluAndMul ? tile : 2 * tile; }
  __device__ static int high_octet(int octets, int tile) {
    if constexpr (kEpilogue == ExpertsEpilogue::kSiluAndMul) return octets / 2 + tile;
    return min(2 * tile + 1, octets - 1);  // the last tile may be half empty
  }
  __device__ static FeatureRows in_tile(int feature) {
    if constexpr (kEpilogue == ExpertsEpilogue::kSwigluOAI)
      return {2 * feature, 2 * feature + 1};
    else
      return {feature, feature + 8};
  }
};

template <class T, class Codes, ExpertsEpilogue kEpilogue, class Cut, int kTiles>
__global__ void __launch_bounds__(32 * Cut::kWarps)
    stream_expert_codes(const __grid_constant__ ExpertsCall call, const __grid_constant__ StreamedMatrix matrix) {
  using Tile = ExpertTile<kEpilogue>;
  constexpr int kWarps = Cut::kWarps, kRows = 8 * kTiles;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row_of_octet = lane / 4, quad = lane % 4;
  const int tile = static_cast<int>(blockIdx.x), first_feature = tile * Tile::kFeatures;
  const int weight_rows = kEpilogue == ExpertsEpilogue::kPlain ? call.features : 2 * call.features;
  __shared__ float parts[kWarps][16][kRows + 1];
  let_next_start();
  wait_for_previous();
  constexpr int kAllRows = 1 << 30;
  const RowTile all = row_tile<kAllRows>(call.offsets, call.experts, 1, static_cast<int>(blockIdx.y));
  if (all.expert < 0) return;  // the whole block

  const int octets = weight_rows / 8, base = all.expert * octets;
  const Octets of_expert{matrix, matrix, base + Tile::low_octet(octets, tile), base + Tile::high_octet(octets, tile),
                         call.length};
  for (int first = all.first; first < all.last; first += kRows) {
    float sums[kTiles][4] = {};
    multiply_octets<T, Codes, Cut>(sums, of_expert, [&] {
      RowsOfX<T, kTiles> x;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const int place = first + 8 * n + row_of_octet;
        const int row = call.sorted[min(place, all.last - 1)] / call.pairs_per_row;
        x.row[n] = static_cast<const T*>(call.x) + row * call.x_stride;
        x.exists[n] = place < all.last;
      }
      return x;
    });

    // Every warp holds a part of each sum.
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) parts[warp][row_of_octet + 8 * (i / 2)][8 * n + 2 * quad + i % 2] = sums[n][i];
    __syncthreads();
    const int count = min(kRows, all.last - first);
    for (int i = static_cast<int>(threadIdx.x); i < Tile::kFeatures * count; i += 32 * kWarps) {
      const int in_block = i % Tile::kFeatures, place = i / Tile::kFeatures, feature = first_feature + in_block;
      if (feature >= call.features) continue;
      auto total = [&](int row_in_tile, int row) {
        float whole = bias_of<T>(call, weight_rows, all.expert, row);
#pragma unroll
        for (int w = 0; w < kWarps; ++w) whole += parts[w][row_in_tile][place];
        return whole;
      };
      const FeatureRows rows = feature_rows<kEpilogue>(call, feature), at = Tile::in_tile(in_block);
      float value = total(at.gate, rows.gate);
      if constexpr (kEpilogue != ExpertsEpilogue::kPlain)
        value = gated<kEpilogue, T>(call, value, total(at.up, rows.up));
      static_cast<T*>(call.out)[call.sorted[first + place] * call.out_stride + feature] = from_float<T>(value);
    }
    __syncthreads();  // before the next rows overwrite the parts
  }
}

template <class T, class Codes, ExpertsEpilogue kEpilogue>
void launch_expert_codes(const ExpertsCall& call, const StreamedMatrix& matrix, void* stream) {
  const auto experts = static_cast<unsigned>(call.pairs < call.experts ? call.pairs : call.experts);
  const dim3 blocks(blocks_for(call.features, ExpertTile<kEpilogue>::kFeatures), experts);
  using Few = CodeCut<8, 2>;
  if (call.tokens() <= 8)
    launch("stream_expert_codes", stream_expert_codes<T, Codes, kEpilogue, Few, 1>, blocks, 32 * Few::kWarps, 0, stream,
           call, matrix);
  else
    launch("stream_expert_codes", stream_expert_codes<T, Codes, kEpilogue, Few, 2>, blocks, 32 * Few::kWarps, 0, stream,
           call, matrix);
}

template <class Codes>
void multiply_expert_codes(const ExpertsCall& call, const StreamedMatrix& matrix, void* stream) {
  if (call.pairs == 0) return;
  with_experts_epilogue(call, [&]<ExpertsEpilogue kEpilogue>() {
    if (call.dtype == DType::kBF16)
      launch_expert_codes<__nv_bfloat16, Codes, kEpilogue>(call, matrix, stream);
    else
      launch_expert_codes<__half, Codes, kEpilogue>(call, matrix, stream);
  });
}

}  // namespace fk::cuda
