// One block per multiprocessor. A producer warp streams pages of the cache, all kv heads of a page at once, into a ring
// in shared memory; each consumer warp attends with the query heads of one kv head (page_tile.cuh). The producer does
// not stop between sequences, so that memory is read without a break.
//
// The work is a list of units: a unit is kWarps tiles of 16 keys of one kv head, that is some pages of one sequence for
// up to kWarps kv heads. The list has the units of all sequences, for one group of kv heads after the other. Each block
// takes an equal, contiguous part of it. A sequence that falls into several parts leaves partial results in scratch
// memory, and the warp that comes last combines them, always in the same order.
#include "backend/cuda/attention/decode_pages.h"

#include <algorithm>

#include "backend/cuda/attention/page_tile.cuh"
#include "backend/cuda/attention/page_work.cuh"
#include "backend/cuda/device/bulk_copy.cuh"
#include "backend/cuda/device/cluster.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/mbarrier.cuh"
#include "backend/cuda/device/multiprocessors.h"
#include "backend/cuda/device/ring_place.cuh"

namespace fk::cuda {
namespace {

constexpr int kMostGroup = 8;         // query heads of a kv head
constexpr int kMostSequences = 2048;  // whose sums are in shared memory
constexpr int kMostStages = 6;
constexpr int kMostCounters = 1 << 16;

// Parts of a sequence and kv head that are done. All zero between two launches: who comes last resets it.
[[maybe_unused]] __device__ unsigned parts_done[kMostCounters];  // by Hopper only

template <int kHeadSize>
constexpr int warps_for = kHeadSize > 128 ? 4 : 8;

// Sizes in shared memory. Rows of a token are padded so that the loads of a tile have no bank conflicts.
struct Layout {
  int row_bytes = 0;   // of the kv heads of one token
  int page_bytes = 0;  // of keys and values of a page
  int stage_bytes = 0;
  int stages = 0;

  __host__ __device__ int key_pitch() const { return row_bytes + kKeyPad; }
  __host__ __device__ int value_pitch() const { return row_bytes + kValuePad; }
};

#if __CUDA_ARCH__ >= 900

struct Ring {
  unsigned char* stages;
  uint64_t* full;
  uint64_t* empty;

  __device__ __forceinline__ uint32_t full_at(int slot) const { return shared_address(full + slot); }
  __device__ __forceinline__ uint32_t empty_at(int slot) const { return shared_address(empty + slot); }
};

__device__ __forceinline__ unsigned load_acquire(const unsigned* address) {
  unsigned value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

// Run by one warp: lane i has the table entry of the i-th page of a run of up to 32 pages; those of the next run are
// loaded before they are needed.
template <class T, int kHeadSize>
__device__ void produce(const AttentionCall& call, const PageWork& work, const Layout& layout, const Ring& ring) {
  const int lane = threadIdx.x % 32;
  const int run_units = 32 / work.pages_per_unit;
  auto entry = [&](const Segment& s) {
    const int page = s.first_page + lane;
    return s.units > 0 && lane < s.units * work.pages_per_unit && page <= s.last_page
               ? call.block_table[s.sequence * call.table_width + page]
               : 0;
  };
  RingPlace place;
  place.parity = 1;  // all slots are empty
  Segment now = work.first_segment(run_units);
  int ids = entry(now);
  while (now.units > 0) {
    const Segment next = work.after(now, run_units);
    const int next_ids = entry(next);
    for (int u = 0; u < now.units; ++u) {
      wait_phase(ring.empty_at(place.slot), place.parity);
      unsigned char* stage = ring.stages + place.slot * layout.stage_bytes;
      const uint32_t full = ring.full_at(place.slot);
      const int first_key = (now.first_page + u * work.pages_per_unit) * kTileKeys;
      const int rows = min(work.pages_per_unit * kTileKeys, now.keys.last - first_key);
      if (lane == 0) arrive_expecting(full, 2 * rows * layout.row_bytes);
      __syncwarp();
      for (int first = 0; first < work.pages_per_unit * kTileKeys; first += 16) {
        const int row = first + lane % 16, page = u * work.pages_per_unit + first / kTileKeys;
        const int64_t block = __shfl_sync(kAllLanes, ids, page);
        if (row >= rows) continue;
        const bool is_value = lane >= 16;
        const HeadStrides& strides = is_value ? call.v_strides : call.k_strides;
        const T* from = static_cast<const T*>(is_value ? call.v : call.k) +
                        (block * kTileKeys + row % kTileKeys) * strides.token + now.first_head * strides.head;
        unsigned char* to = stage + first / kTileKeys * layout.page_bytes +
                            (is_value ? kTileKeys * layout.key_pitch() + row % kTileKeys * layout.value_pitch()
                                      : row % kTileKeys * layout.key_pitch());
        copy_bytes(shared_address(to), from, layout.row_bytes, full);
      }
      place.next(layout.stages);
    }
    now = next;
    ids = next_ids;
  }
}

template <class T, int kHeadSize>
__device__ void consume(const AttentionCall& call, const PageWork& work, const Layout& layout, const Ring& ring,
                        float* exchange, float* scratch) {
  constexpr int kWarps = warps_for<kHeadSize>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group = call.heads / call.kv_heads, page = warp / work.heads;
  RingPlace place;
  for (Segment now = work.first_segment(); now.units > 0; now = work.after(now)) {
    const int kv_head = now.first_head + warp % work.heads;
    PageTile<T, kHeadSize> tile(call, now.sequence, kv_head);
    for (int u = 0; u < now.units; ++u) {
      wait_phase(ring.full_at(place.slot), place.parity);
      const int tile_page = now.first_page + u * work.pages_per_unit + page;
      if (tile_page <= now.last_page) {
        const unsigned char* keys = ring.stages + place.slot * layout.stage_bytes + page * layout.page_bytes +
                                    warp % work.heads * kHeadSize * 2;
        tile.attend(keys, layout.key_pitch(), keys + kTileKeys * layout.key_pitch(), layout.value_pitch(),
                    tile_page * kTileKeys, now.keys);
      }
      __syncwarp();
      if (lane == 0) arrive(ring.empty_at(place.slot));
      place.next(layout.stages);
    }
    tile.finish_sums();
    if (work.pages_per_unit > 1) {
      // The warps of a kv head have other pages each: its first warp combines them.
      meet(1, 32 * kWarps);  // the last segment's results have been read
      tile.save(exchange + warp * partial_floats(kHeadSize, group), group);
      meet(1, 32 * kWarps);
      if (page > 0) continue;
      for (int other = warp + work.heads; other < kWarps; other += work.heads)
        tile.add(exchange + other * partial_floats(kHeadSize, group), group);
    }
    if (now.whole) {
      tile.store(now.sequence, kv_head);
      continue;
    }
    // Each block has at most two partial results: of the first sequence of its part, and of the last.
    const int floats = partial_floats(kHeadSize, group), head = warp % work.heads;
    const int first_block = work.block_of(now.sequence_begin), last_block = work.block_of(now.sequence_end - 1);
    auto partial = [&](int part) {
      const int block = first_block + part, which = work.first_unit_of(block) >= now.sequence_begin ? 0 : 1;
      return scratch + (static_cast<int64_t>(2 * block + which) * work.heads + head) * floats;
    };
    const int parts = last_block - first_block + 1, own = static_cast<int>(blockIdx.x) - first_block;
    unsigned* counter = parts_done + now.sequence * call.kv_heads + kv_head;
    // Usually the others are done long before: then nothing has to be saved.
    if (__shfl_sync(kAllLanes, lane == 0 ? load_acquire(counter) : 0, 0) != static_cast<unsigned>(parts - 1)) {
      tile.save(partial(own), group);
      __threadfence();
      __syncwarp();
      const unsigned before = __shfl_sync(kAllLanes, lane == 0 ? atomicAdd(counter, 1) : 0, 0);
      if (before != static_cast<unsigned>(parts - 1)) continue;
      __threadfence();
    }
    if (lane == 0) *counter = 0;
    __syncwarp();  // the other lanes see what lane 0 has acquired
    tile.combine(parts, own, partial, group);
    tile.store(now.sequence, kv_head);
  }
}

#endif

template <class T, int kHeadSize>
__global__ void __launch_bounds__(32 * (warps_for<kHeadSize> + 1), 1)
    decode_pages(AttentionCall call, Layout layout, int heads, float* scratch) {
#if __CUDA_ARCH__ >= 900
  constexpr int kWarps = warps_for<kHeadSize>;
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ uint64_t full[kMostStages], empty[kMostStages];
  let_next_start();
  if (threadIdx.x == 0) {
    for (int i = 0; i < layout.stages; ++i) {
      init_barrier(shared_address(full + i), 1);
      init_barrier(shared_address(empty + i), kWarps);
    }
    show_barriers_to_cluster();
  }
  wait_for_previous();
  int* begins = reinterpret_cast<int*>(memory + layout.stages * layout.stage_bytes);
  auto* exchange = reinterpret_cast<float*>(begins + (call.sequences + 4) / 4 * 4);
  const PageWork work(call, heads, kWarps / heads, begins);
  zero_empty_sequences<T>(call, work);
  const Ring ring{memory, full, empty};
  if (threadIdx.x / 32 == kWarps)
    produce<T, kHeadSize>(call, work, layout, ring);
  else
    consume<T, kHeadSize>(call, work, layout, ring, exchange, scratch);
#endif
}

// kv heads that a block takes together: a power of two.
int heads_together(const AttentionCall& call, int warps) {
  int heads = 1;
  while (2 * heads <= warps && call.kv_heads % (2 * heads) == 0) heads *= 2;
  return heads;
}

int warps_of(const AttentionCall& call) { return call.head_size > 128 ? warps_for<256> : warps_for<128>; }

template <class T, int kHeadSize>
void launch_pages(const AttentionCall& call, float* scratch, void* stream) {
  constexpr int kWarps = warps_for<kHeadSize>;
  static const size_t most_bytes = [] {
    const size_t bytes = shared_memory_of_block() - 1024;  // the barriers are in there too
    allow_shared_memory("decode_pages", decode_pages<T, kHeadSize>, bytes);
    return bytes;
  }();
  const int heads = heads_together(call, kWarps), pages = kWarps / heads, group = call.heads / call.kv_heads;
  Layout layout;
  layout.row_bytes = heads * kHeadSize * 2;
  layout.page_bytes = kTileKeys * (layout.key_pitch() + layout.value_pitch());
  layout.stage_bytes = pages * layout.page_bytes;
  const size_t sums = static_cast<size_t>(call.sequences + 4) / 4 * 16;
  const size_t exchange =
      pages > 1 ? sizeof(float) * static_cast<size_t>(kWarps * partial_floats(kHeadSize, group)) : 0;
  layout.stages = static_cast<int>(
      std::min<size_t>(kMostStages, (most_bytes - sums - exchange) / static_cast<size_t>(layout.stage_bytes)));
  const size_t bytes = sums + exchange + static_cast<size_t>(layout.stages * layout.stage_bytes);
  launch("decode_pages", decode_pages<T, kHeadSize>, static_cast<unsigned>(multiprocessors()), 32 * (kWarps + 1), bytes,
         stream, call, layout, heads, scratch);
}

template <class T>
void launch_pages_of(const AttentionCall& call, float* scratch, void* stream) {
  if (call.head_size == 64)
    launch_pages<T, 64>(call, scratch, stream);
  else if (call.head_size == 128)
    launch_pages<T, 128>(call, scratch, stream);
  else
    launch_pages<T, 256>(call, scratch, stream);
}

}  // namespace

std::string_view decode_pages_refusal(const AttentionCall& call) {
  if (!has_hopper_launches()) return "it copies as Hopper and later devices do";
  if (call.dtype != DType::kBF16 && call.dtype != DType::kF16) return "it attends in bf16 and f16";
  if (call.head_size != 64 && call.head_size != 128 && call.head_size != 256)
    return "heads have 64, 128 or 256 elements";
  if (call.heads / call.kv_heads > kMostGroup) return "at most 8 heads share a kv head";
  if (!heads_on_16_bytes(call)) return "heads must start on 16 bytes";
  if (call.block_table == nullptr || !pages_are_tiles(call)) return "pages must hold 16 tokens";
  if (call.k_strides.head != call.head_size || call.v_strides.head != call.head_size)
    return "the heads of a token must lie one after the other";
  if (call.sequences > kMostSequences || call.sequences * call.kv_heads > kMostCounters)
    return "at most 2048 sequences and 65536 kv heads of all of them";
  return {};
}

// To divide the work and to combine its parts takes about 20 us, which long sequences win back
// (docs/results/serving.md).
bool decode_pages_preferred(const AttentionCall& call) {
  constexpr int kManySequences = 16, kManyPages = 128;
  return call.sequences >= kManySequences && call.table_width >= kManyPages && call.window == 0 && call.chunk == 0 &&
         decode_pages_refusal(call).empty();
}

int64_t decode_pages_scratch(const AttentionCall& call) {
  const int group = call.heads / call.kv_heads, heads = heads_together(call, warps_of(call));
  return int64_t{2} * multiprocessors() * heads * partial_floats(call.head_size, group);
}

void attention_decode_pages(const AttentionCall& call, float* scratch, void* stream) {
  if (call.dtype == DType::kBF16)
    launch_pages_of<__nv_bfloat16>(call, scratch, stream);
  else
    launch_pages_of<__half>(call, scratch, stream);
}

}  // namespace fk::cuda
