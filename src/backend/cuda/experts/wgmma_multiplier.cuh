// ExpertsMultiplier: the products of 64 pairs by one warpgroup, over the stages that the loader fills.
#pragma once

#include "backend/cuda/attention/warpgroup_multiplier.cuh"
#include "backend/cuda/experts/epilogue.cuh"
#include "backend/cuda/experts/wgmma_plan.cuh"

namespace fk::cuda::expert_tiles {

template <class T, ExpertsEpilogue kEpilogue>
struct ExpertsMultiplier {
  const ExpertsCall& call;
  Ring ring;
  int warpgroup;
  int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, quad = lane % 4;
  float sum[kSums];

  __device__ __forceinline__ void run() {
    RingPlace at;
    for_tiles<kEpilogue>(call, [&](const RowTile& tile) {
      if (tile.last - tile.first > 64 * warpgroup) {
        multiply(at);
        store(tile);
      } else {
        // No rows for this warpgroup: it only keeps in step.
        for (int k = 0; k < call.length; k += kPanel, at.next(kStages)) {
          wait_phase(ring.full(at.slot), at.parity);
          warpgroups::release(ring.empty(at.slot));
        }
      }
    });
  }

  // The products of a stage run while those of the next are started.
  __device__ __forceinline__ void multiply(RingPlace& at) {
    int before = -1;  // the slot of the stage before
    for (int k = 0; k < call.length; k += kPanel, at.next(kStages)) {
      wait_phase(ring.full(at.slot), at.parity);
      show_shared_memory_to_products();
      const uint64_t x = matrix_descriptor(ring.x(at.slot) + static_cast<uint32_t>(warpgroup) * 64 * kPanelRowBytes, 0);
      const uint64_t w = matrix_descriptor(ring.weight(at.slot), 0);
      begin_products();
#pragma unroll
      for (int i = 0; i < kPanel / 16; ++i)
        multiply_rows<T>(sum, advance(x, 32 * i), advance(w, 32 * i), k > 0 || i > 0);
      commit_products();
      wait_products<1>();
      if (before >= 0) warpgroups::release(ring.empty(before));
      before = at.slot;
    }
    wait_products<0>();
    hold(sum);
    warpgroups::release(ring.empty(before));
  }

  // Sum of weight row `row` of the tile, in group n of 8 columns; i as in wgmma.cuh.
  __device__ __forceinline__ float with_bias(const RowTile& tile, int n, int i, int row) const {
    const int rows = kEpilogue == ExpertsEpilogue::kPlain ? call.features : 2 * call.features;
    return row < rows ? sum[4 * n + i] + bias_of<T>(call, rows, tile.expert, row) : 0.0f;
  }

  __device__ __forceinline__ void store(const RowTile& tile) {
    const int first = tile.column * tile_features<kEpilogue>();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int position = tile.first + warp * 16 + lane / 4 + 8 * r;
      const bool exists = position < tile.last;
      T* out = static_cast<T*>(call.out) + call.sorted[min(position, tile.last - 1)] * call.out_stride + first;
      if constexpr (kEpilogue == ExpertsEpilogue::kSwigluOAI)
        store_alternating(tile, r, exists, first, out);
      else
        store_columns(tile, r, exists, first, out);
    }
  }

  // A lane holds 2 of 8 neighbouring elements; after an exchange it holds all 8 and stores 16 bytes.
  __device__ __forceinline__ void store_columns(const RowTile& tile, int r, bool exists, int first, T* out) {
#pragma unroll
    for (int n = 0; n < tile_features<kEpilogue>() / 8; n += 4) {
      uint32_t part[4];
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        float value[2];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int feature = first + 8 * (n + b) + 2 * quad + j;
          value[j] = with_bias(tile, n + b, 2 * r + j, feature);
          if constexpr (kEpilogue == ExpertsEpilogue::kSiluAndMul)
            value[j] =
                gated<kEpilogue, T>(call, value[j], with_bias(tile, n + b + 16, 2 * r + j, feature + call.features));
        }
        part[b] = pack_two<T>(value[0], value[1]);
      }
      warpgroups::transpose_among_four(part);
      const int column = 8 * (n + quad);
      if (exists && first + column < call.features)
        *reinterpret_cast<uint4*>(out + column) = make_uint4(part[0], part[1], part[2], part[3]);
    }
  }

  // Gate and up are the two columns of a lane. Lanes exchange, so that each stores two neighbouring features: an even
  // one of group n, an odd one of group n + 1.
  __device__ __forceinline__ void store_alternating(const RowTile& tile, int r, bool exists, int first, T* out) {
    const bool odd = (quad & 1) != 0;
#pragma unroll
    for (int n = 0; n < kWeightRows / 8; n += 2) {
      float value[2];
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        const int row = 2 * first + 8 * (n + b) + 2 * quad;
        value[b] =
            gated<kEpilogue, T>(call, with_bias(tile, n + b, 2 * r, row), with_bias(tile, n + b, 2 * r + 1, row + 1));
      }
      const float other = __shfl_xor_sync(kAllLanes, odd ? value[0] : value[1], 1);
      const uint32_t both = odd ? pack_two<T>(other, value[1]) : pack_two<T>(value[0], other);
      const int column = 4 * (odd ? n + 1 : n) + (quad & 2);
      if (exists && first + column < call.features) *reinterpret_cast<uint32_t*>(out + column) = both;
    }
  }
};

}  // namespace fk::cuda::expert_tiles
