// Roles of the warpgroups of a block in prefill_wgmma.cu (one loads, two multiply), and the layout of shared memory.
#pragma once

#include "backend/cuda/attention/query_items.cuh"
#include "backend/cuda/device/bulk_copy.cuh"
#include "backend/cuda/device/cluster.cuh"
#include "backend/cuda/device/mbarrier.cuh"
#include "backend/cuda/device/wgmma.cuh"

namespace fk::cuda::warpgroups {

inline constexpr int kWarpgroup = 128;
inline constexpr int kMultipliers = 2;  // warpgroups
inline constexpr int kThreads = kWarpgroup * (kMultipliers + 1);
inline constexpr int kRows = 64 * kMultipliers;
inline constexpr int kBlock = kTileKeys;

// For the copy engine, which copies a tile or all queries of an item at once; the loader's threads copy what it cannot.
struct Boxes {
  CUtensorMap q, k, v;
  bool queries = false;  // it can copy queries
  bool keys = false;     // and tiles of keys and values that are full
  // FASTKERNELS_DEBUG_HANDOVER=lanes: every lane that has read a record releases it (decode_megakernel/handover.cuh).
  bool every_lane = false;
};

// What the multipliers need to know of an item. The loader searches items and writes this into shared memory.
struct alignas(16) ItemRecord {
  int kv_head, first_row, rows, query_start;
  int first_key, last_key, context, key_len;  // first_key = last_key: there is no item left
};

// Layout of shared memory, panels as in wgmma.cuh.
template <int kHeadSize>
struct Plan {
  // Sums of values take kHeadSize / 2 registers a thread, scores kKeys / 2, weights kKeys / 4.
  static constexpr int kKeys = kHeadSize > 128 ? 64 : 128;
  // 65536 registers for three warpgroups: compiled for 168 each, of which loaders give some back.
  static constexpr int kLoaderRegisters = kHeadSize > 128 ? 40 : 72;
  static constexpr int kMultiplierRegisters = (3 * 168 - kLoaderRegisters) / kMultipliers;
  // Whether the copy engine is used. Not for heads above 128, whose kernel has no free registers.
  static constexpr bool kBoxes = kHeadSize <= 128;
  static constexpr int kPanels = kHeadSize / 64;
  // As many as fit: small tiles are used up before the next ones have come from memory.
  static constexpr uint32_t kStages = kHeadSize > 64 ? 2 : 4;
  // Two, where they fit: the next item's are loaded while those of this one are in use.
  static constexpr uint32_t kQueryStages = kHeadSize > 128 ? 1 : 2;
  static constexpr uint32_t kQueryPanelBytes = kRows * kPanelRowBytes, kKeyPanelBytes = kKeys * kPanelRowBytes;
  static constexpr uint32_t kTileBytes = kPanels * kKeyPanelBytes;
  static constexpr uint32_t kQueriesBytes = kPanels * kQueryPanelBytes;
  static constexpr uint32_t kKeysAt = kQueryStages * kQueriesBytes;
  static constexpr uint32_t kValuesAt = kKeysAt + kStages * kTileBytes;
  static constexpr uint32_t kRecordsAt = kValuesAt + kStages * kTileBytes;
  static constexpr uint32_t kBarriersAt = kRecordsAt + kQueryStages * sizeof(ItemRecord);
  static constexpr uint32_t kBytes =
      kBarriersAt + 8 * (4 * kStages + 2 * kQueryStages) + kPatternBytes;  // the start is rounded up

  uint32_t base;

  __device__ __forceinline__ uint32_t queries(uint32_t stage) const { return base + stage * kQueriesBytes; }
  __device__ __forceinline__ uint32_t keys(uint32_t stage) const { return base + kKeysAt + stage * kTileBytes; }
  __device__ __forceinline__ uint32_t values(uint32_t stage) const { return base + kValuesAt + stage * kTileBytes; }
  __device__ __forceinline__ uint32_t record(uint32_t stage) const {
    return base + kRecordsAt + stage * static_cast<uint32_t>(sizeof(ItemRecord));
  }
  // Full: the loaders' copies are complete. Empty: every multiplying warp has read it.
  __device__ __forceinline__ uint32_t keys_full(uint32_t stage) const { return base + kBarriersAt + 8 * stage; }
  __device__ __forceinline__ uint32_t keys_empty(uint32_t stage) const { return keys_full(kStages + stage); }
  __device__ __forceinline__ uint32_t values_full(uint32_t stage) const { return keys_full(2 * kStages + stage); }
  __device__ __forceinline__ uint32_t values_empty(uint32_t stage) const { return keys_full(3 * kStages + stage); }
  __device__ __forceinline__ uint32_t queries_full(uint32_t stage) const { return keys_full(4 * kStages + stage); }
  __device__ __forceinline__ uint32_t queries_empty(uint32_t stage) const { return queries_full(kQueryStages + stage); }

  __device__ __forceinline__ void make_barriers(bool every_lane) const {
    constexpr unsigned kWarps = kMultipliers * 4;
    for (uint32_t b = 0; b < 4 * kStages; ++b) init_barrier(keys_full(b), b / kStages % 2 == 0 ? kWarpgroup : kWarps);
    for (uint32_t b = 0; b < kQueryStages; ++b) {
      init_barrier(queries_full(b), kWarpgroup + 1);  // one more for the record of an item
      init_barrier(queries_empty(b), every_lane ? 32 * kWarps : kWarps);
    }
    show_barriers_to_cluster();  // and to the copy engine
  }

  __device__ __forceinline__ void write_record(uint32_t stage, const ItemRecord& item) const {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(record(stage)), "r"(item.kv_head),
                 "r"(item.first_row), "r"(item.rows), "r"(item.query_start)
                 : "memory");
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(record(stage) + 16), "r"(item.first_key),
                 "r"(item.last_key), "r"(item.context), "r"(item.key_len)
                 : "memory");
  }
  __device__ __forceinline__ ItemRecord read_record(uint32_t stage) const {
    ItemRecord item;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(item.kv_head), "=r"(item.first_row), "=r"(item.rows), "=r"(item.query_start)
                 : "r"(record(stage))
                 : "memory");
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(item.first_key), "=r"(item.last_key), "=r"(item.context), "=r"(item.key_len)
                 : "r"(record(stage) + 16)
                 : "memory");
    return item;
  }
};

// Tile or item number n of a block: its slot in a ring of so many and how often that was filled before, mod 2.
template <uint32_t kSlots>
struct Turn {
  uint32_t stage, phase;
  __device__ __forceinline__ explicit Turn(uint32_t n) : stage(n % kSlots), phase((n / kSlots) & 1) {}
};

template <int kHeadSize>
__device__ __forceinline__ int tiles_of(int first_key, int last_key) {
  constexpr int kKeys = Plan<kHeadSize>::kKeys;
  return max(0, (last_key - first_key + kKeys - 1) / kKeys);
}

}  // namespace fk::cuda::warpgroups
