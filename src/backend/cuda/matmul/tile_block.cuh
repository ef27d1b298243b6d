// TileBlock: the work of one block of stream_tiles.
//
// A cluster takes tiles of up to 64 rows of W, one after the other; its blocks split the k dimension, so that each
// block keeps its part of x in shared memory. In a block one warpgroup only starts copies of W, across the ends of
// tiles, and one multiplies. The blocks send their partial sums of a tile to each other: each adds up and stores some
// of its features, while the next tile is multiplied. All tiles have the same height, chosen so that every cluster has
// the same number of tiles; that tensor cores always compute 64 rows does not matter, since memory bandwidth is the
// limit.
//
// Copies of W start before the block waits for the previous kernel: W does not depend on it.
#pragma once

#include "backend/cuda/device/cluster.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/mbarrier.cuh"
#include "backend/cuda/device/ring_place.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/device/wgmma.cuh"
#include "backend/cuda/matmul/stream_call.cuh"
#include "backend/cuda/matmul/stream_tiles.h"

namespace fk::cuda::tiles {

inline constexpr int kTokens = static_cast<int>(kMostTiledRows);
inline constexpr int kWarpgroup = 128;
inline constexpr int kThreads = 2 * kWarpgroup;
inline constexpr int kTileRows = 64;  // of W, what a warpgroup multiplies at once
inline constexpr int kPanel = 64;     // columns that are contiguous in shared memory (wgmma.cuh)
inline constexpr int kPanelBytes = kTileRows * static_cast<int>(kPanelRowBytes);
inline constexpr int kXPanelBytes = kTokens * static_cast<int>(kPanelRowBytes);
inline constexpr int kStagePanels = 2;
inline constexpr int kStageBytes = kStagePanels * kPanelBytes;
inline constexpr int kMostStages = 12, kFewestStages = 4;
inline constexpr int kMostCluster = 8;
inline constexpr int kPitch = kTokens + 4;  // of a row of sums, in floats
inline constexpr int kSumsBytes = kTileRows * kPitch * static_cast<int>(sizeof(float));

// Features of a tile at most: a gated one has a gate row and an up row for each.
constexpr int most_features(StreamEpilogue epilogue) {
  return epilogue == StreamEpilogue::kPlain ? kTileRows : kTileRows / 2;
}

// How a product is split.
struct TilePlan {
  int cluster = 0;   // blocks that split the k dimension of a tile; 0: not possible
  int clusters = 0;  // that run at once
  int features = 0;  // of a tile
  int rounds = 0;    // tiles of a cluster, at most
  int panels = 0;    // of all columns
  int slice = 0;     // of them that a block has, at most, in whole stages
  int stages = 0;    // of the ring

  // What a block reads, and a little for the end of each tile.
  int64_t cost() const { return rounds * (int64_t{features} * slice * kPanelRowBytes + 8192); }
};

// Layout of a block's shared memory, from a multiple of 1024 on.
struct Places {
  uint32_t x, ring, staged, sums, barriers;

  __device__ __forceinline__ Places(uint32_t start, const TilePlan& plan)
      : x(start),
        ring(x + static_cast<uint32_t>(plan.slice * kXPanelBytes)),
        staged(ring + static_cast<uint32_t>(plan.stages * kStageBytes)),
        sums(staged + kSumsBytes),
        barriers(sums + 2 * kSumsBytes) {}

  static size_t bytes(int slice, int stages) {
    return static_cast<size_t>(slice * kXPanelBytes + stages * kStageBytes + 3 * kSumsBytes +
                               8 * (2 * kMostStages + 2)) +
           kPatternBytes;
  }

  __device__ __forceinline__ uint32_t stage(int i) const { return ring + static_cast<uint32_t>(i * kStageBytes); }
  __device__ __forceinline__ uint32_t full(int i) const { return barriers + static_cast<uint32_t>(16 * i); }
  __device__ __forceinline__ uint32_t empty(int i) const { return full(i) + 8; }
  __device__ __forceinline__ uint32_t sums_of(int round) const {
    return sums + static_cast<uint32_t>(round % 2 * kSumsBytes);
  }
  __device__ __forceinline__ uint32_t sent(int round) const {  // all sums of a round have arrived
    return barriers + static_cast<uint32_t>(16 * kMostStages + 8 * (round % 2));
  }
};

__device__ __forceinline__ float load_shared(uint32_t address) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ void store_shared(uint32_t address, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(first), "f"(second) : "memory");
}

template <class T, class Out, StreamEpilogue kEpilogue>
class TileBlock {
 public:
  __device__ __forceinline__ TileBlock(const StreamPointers<T>& p, const StreamSizes& s, const TilePlan& plan,
                                       uint32_t shared)
      : p_(p),
        s_(s),
        plan_(plan),
        at_(shared, plan),
        rank_(static_cast<int>(blockIdx.x) % plan.cluster),
        first_panel_(rank_ * plan.panels / plan.cluster),
        last_panel_((rank_ + 1) * plan.panels / plan.cluster),
        features_(plan.features / plan.cluster),
        rows_(kHalves * features_),
        thread_(static_cast<int>(threadIdx.x) % kWarpgroup) {}

  // By one thread, before the cluster barrier.
  __device__ __forceinline__ void start_barriers() const {
    for (int i = 0; i < plan_.stages; ++i) {
      init_barrier(at_.full(i), kWarpgroup);
      init_barrier(at_.empty(i), kWarpgroup / 32);
    }
    for (int i = 0; i < 2; ++i) init_barrier(at_.sent(i), 1);
    show_barriers_to_cluster();
  }

  // Loads all of this block's W in order, by the load warpgroup; zeros after a tile's features, and after the last
  // panel up to a whole stage.
  __device__ __forceinline__ void fetch() const {
    constexpr int kChunks = 8 * kStagePanels, kRowsAtOnce = kWarpgroup / kChunks, kPasses = kTileRows / kRowsAtOnce;
    const int chunk = thread_ % kChunks, row = thread_ / kChunks;
    RingPlace place{.parity = 1};  // all stages are empty at first
    for_tiles([&](int, int first_feature) {
      const T* from = p_.weight + (static_cast<int64_t>(first_feature) + row) * s_.length + 8 * chunk;
      const int features = min(plan_.features, s_.features - first_feature);
      for (int panel = first_panel_; panel < last_panel_; panel += kStagePanels, place.next(plan_.stages)) {
        wait_phase(at_.empty(place.slot), place.parity);
        const int column = panel * kPanel;
        const bool inside = panel + chunk / 8 < last_panel_ && column + 8 * chunk < s_.length;
        const uint32_t to = at_.stage(place.slot) + static_cast<uint32_t>(chunk / 8 * kPanelBytes);
#pragma unroll
        for (int i = 0; i < kPasses; ++i) {
          const int in_tile = row + i * kRowsAtOnce, half = in_tile / kHalfRows;
          const int64_t rows = i * kRowsAtOnce + half * (s_.features - kHalfRows);
          const bool valid = inside && in_tile % kHalfRows < features;
          copy_async(to + panel_place(in_tile, chunk % 8), valid ? from + rows * s_.length + column : p_.weight, valid);
        }
        arrive_after_copies(at_.full(place.slot));
      }
    });
    commit_copies();
    wait_copies<0>();
  }

  __device__ __forceinline__ void multiply() const {
    wait_for_previous();
    fetch_x();
    RingPlace place;
    int last_round = 0, last_feature = 0;
    for_tiles([&](int round, int first_feature) {
      float sum[kTokens / 2] = {};
      for (int panel = first_panel_; panel < last_panel_; panel += kStagePanels, place.next(plan_.stages)) {
        wait_phase(at_.full(place.slot), place.parity);
        show_shared_memory_to_products();
        begin_products();
#pragma unroll
        for (int q = 0; q < kStagePanels; ++q) {
          const uint64_t w = matrix_descriptor(at_.stage(place.slot) + q * kPanelBytes, 0);
          const uint64_t x =
              matrix_descriptor(at_.x + static_cast<uint32_t>((panel + q - first_panel_) * kXPanelBytes), 0);
#pragma unroll
          for (int k = 0; k < kPanel / 16; ++k) multiply_rows<T>(sum, advance(w, 32 * k), advance(x, 32 * k), true);
        }
        commit_products();
        wait_products<0>();
        hold(sum);
        if (thread_ % 32 == 0) arrive(at_.empty(place.slot));
      }
      // A block that sends round r + 1 has stored round r - 1, since all blocks had sent round r by then: two buffers
      // are enough.
      if (round == 0)
        wait_for_cluster();
      else
        put_out(last_round, last_feature);
      send_sums(round, sum);
      last_round = round;
      last_feature = first_feature;
    });
    put_out(last_round, last_feature);
    if (thread_ < plan_.cluster) wait_until_sent();
  }

 private:
  static constexpr int kHalves = kEpilogue == StreamEpilogue::kPlain ? 1 : 2;
  static constexpr int kHalfRows = kTileRows / kHalves;  // of a gated tile: gate rows, then up rows

  // visit(round, first feature) for each tile of this cluster, of which there is one at least.
  template <class Visit>
  __device__ __forceinline__ void for_tiles(const Visit& visit) const {
    int feature = static_cast<int>(blockIdx.x) / plan_.cluster * plan_.features;
    for (int round = 0; feature < s_.features; ++round, feature += plan_.clusters * plan_.features)
      visit(round, feature);
  }

  __device__ __forceinline__ void fetch_x() const {
    constexpr int kChunks = kTokens * 8;  // of a panel
    for (int i = thread_; i < plan_.slice * kChunks; i += kWarpgroup) {
      const int panel = i / kChunks, row = i / 8 % kTokens, chunk = i % 8;
      const int column = (first_panel_ + panel) * kPanel + 8 * chunk;
      const bool valid = row < s_.tokens && first_panel_ + panel < last_panel_ && column < s_.length;
      copy_async(at_.x + static_cast<uint32_t>(panel * kXPanelBytes) + panel_place(row, chunk),
                 valid ? p_.x + row * s_.x_stride + column : p_.x, valid);
    }
    commit_copies();
    wait_copies<0>();
    show_shared_memory_to_products();
    meet(1, kWarpgroup);
  }

  // Each block of the cluster gets the sums of its features; its own are written directly to their destination.
  __device__ __forceinline__ void send_sums(int round, const float (&sum)[kTokens / 2]) const {
    if (thread_ < plan_.cluster) wait_until_sent();
    meet(1, kWarpgroup);
    const auto bytes = static_cast<uint32_t>(rows_ * kPitch * 4), own = static_cast<uint32_t>(rank_) * bytes;
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const int row = thread_ / 32 * 16 + thread_ % 32 / 4 + 8 * lower, feature = row % kHalfRows;
      if (feature >= plan_.features) continue;
      const int owner = feature / features_, place = row / kHalfRows * features_ + feature % features_;
      const uint32_t to =
          (owner == rank_ ? at_.sums_of(round) + own : at_.staged + static_cast<uint32_t>(owner) * bytes) +
          static_cast<uint32_t>(place * kPitch * 4 + thread_ % 4 * 8);
#pragma unroll
      for (int n = 0; n < kTokens / 8; ++n)
        store_shared(to + 32 * n, sum[4 * n + 2 * lower], sum[4 * n + 2 * lower + 1]);
    }
    show_shared_memory_to_products();
    meet(1, kWarpgroup);
    if (thread_ < plan_.cluster && thread_ != rank_) {
      const auto owner = static_cast<uint32_t>(thread_);
      send(shared_of(at_.sums_of(round) + own, owner), at_.staged + owner * bytes, bytes,
           shared_of(at_.sent(round), owner));
    }
  }

  // This block's share of the features of a tile.
  __device__ __forceinline__ void put_out(int round, int first_feature) const {
    if (thread_ == 0)
      arrive_expecting(at_.sent(round), static_cast<uint32_t>((plan_.cluster - 1) * rows_ * kPitch * 4));
    wait_phase(at_.sent(round), static_cast<uint32_t>(round / 2 % 2));
    Out* out = static_cast<Out*>(p_.out);
    for (int i = thread_; i < features_ * s_.tokens; i += kWarpgroup) {
      const int token = i / features_, place = i % features_, feature = first_feature + rank_ * features_ + place;
      if (feature >= s_.features) continue;
      const float value = stream_result<kEpilogue>(p_, s_, feature, [&](int half) {
        float all = 0;
        for (int block = 0; block < plan_.cluster; ++block)
          all += load_shared(at_.sums_of(round) +
                             static_cast<uint32_t>(((block * rows_ + half * features_ + place) * kPitch + token) * 4));
        return all;
      });
      out[token * s_.out_stride + feature] = from_float<Out>(value);
    }
  }

  const StreamPointers<T>& p_;
  const StreamSizes& s_;
  const TilePlan& plan_;
  const Places at_;
  const int rank_;  // in the cluster
  const int first_panel_, last_panel_;
  const int features_, rows_;  // of a tile that this block stores, and their rows
  const int thread_;           // of the warpgroup
};

}  // namespace fk::cuda::tiles
