// A block takes kRows queries of one head and iterates over their keys in tiles of kKeys with an online softmax, so
// that scores stay in registers. Each warp has 16 queries; of heads too large for its registers two warps have the same
// queries and scores, and half of the elements of the values each.
//
// Heads of other sizes than kHeadSize are filled up with zeros. Keys and values are loaded by asynchronous copies, one
// tile ahead of the multiplication, directly from the paged cache.
#include "backend/cuda/attention/prefill_mma.h"

#include "backend/cuda/attention/keys.cuh"
#include "backend/cuda/attention/query_rows.cuh"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/device/tile.cuh"

namespace fk::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;

template <int kHeadSize>
constexpr int kParts = kHeadSize > 256 ? 2 : 1;  // warps that have the same queries
template <int kHeadSize>
constexpr int kRowsOf = 16 * kWarps / kParts<kHeadSize>;  // queries of a block

// Large heads need more registers per query and more shared memory per key.
template <int kHeadSize>
constexpr int keys_per_tile() {
  return kHeadSize > 128 ? 32 : 64;
}

template <int kHeadSize>
constexpr size_t shared_bytes() {
  return sizeof(uint16_t) * kHeadSize *
         (kRowsOf<kHeadSize> + 4 * keys_per_tile<kHeadSize>());  // queries; keys and values, twice
}

// The queries of a block: tiles of all sequences in order, the last tile of a sequence first, because late queries see
// the most keys and long work should start early.
struct QueryTile {
  int sequence = -1;  // none: the grid is an upper bound
  int first = 0;      // of the sequence's queries
};
template <int kRows>
__device__ QueryTile query_tile(const AttentionCall& call, int index) {
  for (int s = 0; s < call.sequences; ++s) {
    const int tiles = (call.cu_seqlens_q[s + 1] - call.cu_seqlens_q[s] + kRows - 1) / kRows;
    if (index < tiles) return {s, (tiles - 1 - index) * kRows};
    index -= tiles;
  }
  return {};
}

template <class T, int kHeadSize>
__global__ void __launch_bounds__(kThreads, 1) prefill_tiles(AttentionCall call) {
  constexpr int kKeys = keys_per_tile<kHeadSize>(), kRows = kRowsOf<kHeadSize>;
  constexpr int kSlice = kHeadSize / kParts<kHeadSize>;  // elements of the values that a warp has
  constexpr int kChunks = kHeadSize / 8;
  extern __shared__ __align__(128) unsigned char shared[];
  const auto base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  constexpr uint32_t kTileBytes = sizeof(uint16_t) * kHeadSize * kKeys;
  const Tile<kHeadSize> queries{base};
  auto key_tile = [&](int buffer) { return Tile<kHeadSize>{base + 2 * kHeadSize * kRows + buffer * 2 * kTileBytes}; };
  auto value_tile = [&](int buffer) { return Tile<kHeadSize>{key_tile(buffer).base + kTileBytes}; };

  const int warp = threadIdx.x / 32 / kParts<kHeadSize>, slice = threadIdx.x / 32 % kParts<kHeadSize> * kSlice;
  const int lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
  const int head = blockIdx.y, kv_head = head / (call.heads / call.kv_heads);
  let_next_start();
  wait_for_previous();
  const QueryTile tile = query_tile<kRows>(call, blockIdx.x);
  if (tile.sequence < 0) return;
  const int s = tile.sequence;
  const int query_start = call.cu_seqlens_q[s], query_len = call.cu_seqlens_q[s + 1] - query_start;
  const int key_len = call.cu_seqlens_k[s + 1] - call.cu_seqlens_k[s];
  const int context = key_len - query_len;  // position of query i is context + i

  const T* q = static_cast<const T*>(call.q) + head * call.q_strides.head;
  for (int at = threadIdx.x; at < kRows * kChunks; at += kThreads) {
    const int row = at / kChunks, chunk = at % kChunks, query = tile.first + row;
    const bool valid = query < query_len && 8 * chunk < call.head_size;
    copy_async(queries.chunk(row, chunk), valid ? q + (query_start + query) * call.q_strides.token + 8 * chunk : q,
               valid);
  }
  // The block table is read one tile ahead, so that no copy waits for its address.
  constexpr int kBlock = kTileKeys, kBlocks = kKeys / kBlock;
  auto look_up = [&](int first, int last, int64_t(&rows)[kBlocks]) {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b)
      rows[b] = first + b * kBlock < last ? key_row(call, s, first + b * kBlock, kTileBits) : 0;
  };
  auto load_keys = [&](int first, int last, const int64_t(&rows)[kBlocks], int buffer) {
#pragma unroll
    for (int i = 0; i < kKeys * kChunks / kThreads; ++i) {
      const int at = threadIdx.x + i * kThreads, row = at / kChunks, chunk = at % kChunks;
      const bool exists = first + row < last, valid = exists && 8 * chunk < call.head_size;
      int64_t from = 0;
#pragma unroll
      for (int b = 0; b < kBlocks; ++b)
        if (row / kBlock == b) from = rows[b] + row % kBlock;
      if (!exists) from = rows[0];
      const int column = valid ? 8 * chunk : 0;
      copy_async(key_tile(buffer).chunk(row, chunk),
                 static_cast<const T*>(call.k) + from * call.k_strides.token + kv_head * call.k_strides.head + column,
                 valid);
      copy_async(value_tile(buffer).chunk(row, chunk),
                 static_cast<const T*>(call.v) + from * call.v_strides.token + kv_head * call.v_strides.head + column,
                 valid);
    }
  };

  // All keys any query of the block sees.
  const int last_query = min(tile.first + kRows, query_len) - 1;
  const int first_key = visible_keys(call, context + tile.first, key_len).first / kKeys * kKeys;
  const int last_key = visible_keys(call, context + last_query, key_len).last;

  const float before = call.soft_cap > 0 ? call.scale : call.scale * kLog2E;
  QueryRows<T, kKeys, kSlice> attended;
  const int my_query[2] = {tile.first + warp * 16 + group, tile.first + warp * 16 + group + 8};
  VisibleKeys mine[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) mine[r] = visible_keys(call, context + my_query[r], key_len);

  int64_t rows[kBlocks];
  look_up(first_key, last_key, rows);
  load_keys(first_key, last_key, rows, 0);
  commit_copies();
  look_up(first_key + kKeys, last_key, rows);
  int buffer = 0;
  for (int first = first_key; first < last_key; first += kKeys, buffer ^= 1) {
    if (first + kKeys < last_key) load_keys(first + kKeys, last_key, rows, buffer ^ 1);
    commit_copies();
    look_up(first + 2 * kKeys, last_key, rows);
    wait_copies<1>();
    __syncthreads();

    attended.multiply_keys(queries, warp * 16, key_tile(buffer));
    const bool all_visible = first >= mine[1].first && first >= mine[0].first && first + kKeys <= mine[0].last &&
                             first + kKeys <= mine[1].last;
    attended.change_scores([&](float value, int r, int key) {
      value *= before;
      if (call.soft_cap > 0) value = capped(value, call.soft_cap) * kLog2E;
      const bool visible = all_visible || (first + key >= mine[r].first && first + key < mine[r].last);
      return visible ? value : -INFINITY;
    });
    attended.add_values(value_tile(buffer), slice / 8);
    __syncthreads();  // before the next copies overwrite this buffer
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float factor = attended.softmax.inverse(r, sink_weight(call, head, attended.softmax.largest[r]));
    if (my_query[r] >= query_len) continue;
    T* out = static_cast<T*>(call.out) + (query_start + my_query[r]) * call.out_strides.token +
             head * call.out_strides.head + slice + 2 * quad;
    attended.store(out, r, factor, call.head_size - slice);
  }
}

template <class T, int kHeadSize>
void launch_tiles(const AttentionCall& call, void* stream) {
  static const bool allowed =
      (allow_shared_memory("prefill_tiles", prefill_tiles<T, kHeadSize>, shared_bytes<kHeadSize>()), true);
  static_cast<void>(allowed);
  // Every sequence may leave its last tile partly empty.
  const unsigned tiles = static_cast<unsigned>(call.tokens / kRowsOf<kHeadSize> + call.sequences);
  launch("prefill_tiles", prefill_tiles<T, kHeadSize>, dim3(tiles, static_cast<unsigned>(call.heads)), kThreads,
         shared_bytes<kHeadSize>(), stream, call);
}

template <class T>
void launch_head_size(const AttentionCall& call, void* stream) {
  if (call.head_size <= 64)
    launch_tiles<T, 64>(call, stream);
  else if (call.head_size <= 128)
    launch_tiles<T, 128>(call, stream);
  else if (call.head_size <= 256)
    launch_tiles<T, 256>(call, stream);
  else
    launch_tiles<T, 512>(call, stream);
}

}  // namespace

std::string_view prefill_mma_refusal(const AttentionCall& call) {
  if (call.dtype != DType::kBF16 && call.dtype != DType::kF16) return "it attends in bf16 and f16";
  if (call.head_size % 8 != 0 || call.head_size > 512) return "heads have a multiple of 8 elements, 512 at most";
  if (call.head_size > 256 && shared_memory_of_block() < shared_bytes<512>())
    return "heads of more than 256 elements do not fit into the shared memory of this device";
  if (!heads_on_16_bytes(call)) return "heads must start on 16 bytes";
  if (!pages_are_tiles(call)) return "pages must hold 16 tokens";
  return {};
}

void attention_prefill_mma(const AttentionCall& call, void* stream) {
  if (call.tokens == 0) return;
  if (call.dtype == DType::kBF16)
    launch_head_size<__nv_bfloat16>(call, stream);
  else
    launch_head_size<__half>(call, stream);
}

}  // namespace fk::cuda
