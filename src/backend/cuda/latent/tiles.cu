// Attention on latents with tensor cores. A block has 64 rows, which are the heads of one query, or of several of one
// sequence, and reads every entry of the cache that they see once: as the keys of all rows, and its first 512 elements
// again, from shared memory, as their values.
//
// Eight warps: each has 16 rows, for which it computes the scores of one half of a tile's keys; the halves meet in
// shared memory as weights, and then each of the two warps sums up one half of the latent's elements.
#include <algorithm>

#include "backend/cuda/attention/running_softmax.cuh"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/latent/call.h"
#include "backend/cuda/latent/query_rows.cuh"

namespace fk::cuda {
namespace {

constexpr int kLatent = 512, kRope = 64, kEntry = kLatent + kRope;
constexpr int kTileWarps = 8, kTileThreads = 32 * kTileWarps;
constexpr int kRowsOfTile = 64, kKeysOfTile = 64;
constexpr int kEntryChunks = kEntry / 8;

constexpr uint32_t kTileBytes = 2 * kEntry * kKeysOfTile;
constexpr uint32_t kWeightBytes = 2 * kRowsOfTile * kKeysOfTile;
// Queries; entries, twice; weights; the largest score and the sum of each row in each half; the entries' rows, twice.
constexpr size_t kSharedBytes = 3 * kTileBytes + kWeightBytes + 2 * 2 * kRowsOfTile * 4 + 2 * kKeysOfTile * 4;
static_assert(kSharedBytes <= 232448);

// The rows of a block: row r is head r % H of the query first + r / H, counted from the first row of its sequence.
struct LatentTile {
  int sequence = -1;  // none: the grid is an upper bound
  int first_row = 0;
  int first_query = 0, queries = 0;  // tokens of the sequence
};
__device__ LatentTile latent_tile(const LatentCall& call, int index) {
  // Without offsets, or with lists of keys, which differ from query to query, every token has tiles of its own.
  if (call.cu_seqlens_q == nullptr || call.indices != nullptr) {
    const int tiles = (call.heads + kRowsOfTile - 1) / kRowsOfTile, token = index / tiles;
    if (token >= call.tokens) return {};
    return {latent_sequence(call, token), index % tiles * kRowsOfTile, token, 1};
  }
  for (int s = 0; s < call.sequences; ++s) {
    const int queries = call.cu_seqlens_q[s + 1] - call.cu_seqlens_q[s];
    const int tiles = (queries * call.heads + kRowsOfTile - 1) / kRowsOfTile;
    // Late queries see the most keys, and long work should start early.
    if (index < tiles) return {s, (tiles - 1 - index) * kRowsOfTile, call.cu_seqlens_q[s], queries};
    index -= tiles;
  }
  return {};
}

template <class T>
__global__ void __launch_bounds__(kTileThreads, 1) latent_tiles_kernel(LatentCall call) {
  extern __shared__ __align__(128) unsigned char shared[];
  const auto base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const Tile<kEntry> queries{base};
  auto entries = [&](int buffer) { return Tile<kEntry>{base + (1 + buffer) * kTileBytes}; };
  const Tile<kKeysOfTile> weights{base + 3 * kTileBytes};
  auto* half_largest = reinterpret_cast<float*>(shared + 3 * kTileBytes + kWeightBytes);  // [2][kRowsOfTile]
  auto* half_sum = half_largest + 2 * kRowsOfTile;                                        // likewise
  auto* entry_of = reinterpret_cast<int*>(half_sum + 2 * kRowsOfTile);                    // [2][kKeysOfTile]

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
  const int row_group = warp % 4, half = warp / 4;
  let_next_start();
  wait_for_previous();
  const LatentTile tile = latent_tile(call, blockIdx.x);
  if (tile.sequence < 0) return;
  const int s = tile.sequence, rows = min(kRowsOfTile, tile.queries * call.heads - tile.first_row);
  auto token_of = [&](int row) { return tile.first_query + (tile.first_row + row) / call.heads; };
  auto head_of = [&](int row) { return (tile.first_row + row) % call.heads; };

  for (int at = threadIdx.x; at < kRowsOfTile * kEntryChunks; at += kTileThreads) {
    const int row = at / kEntryChunks, chunk = at % kEntryChunks;
    const bool valid = row < rows;
    const int token = token_of(valid ? row : 0), head = head_of(valid ? row : 0);
    const T* from = chunk < kLatent / 8
                        ? static_cast<const T*>(call.q_nope) + token * call.nope_token + head * call.nope_head + 8 * chunk
                        : static_cast<const T*>(call.q_pe) + token * call.pe_token + head * call.pe_head +
                              8 * (chunk - kLatent / 8);
    copy_async(queries.chunk(row, chunk), from, valid);
  }

  // All keys any row sees, and this block's share of them: whole tiles.
  const int32_t* picks = call.indices != nullptr ? call.indices + tile.first_query * call.index_stride : nullptr;
  const int all_keys = picks != nullptr ? call.num_indices : latent_keys(call, s, token_of(rows - 1));
  const int all_tiles = (all_keys + kKeysOfTile - 1) / kKeysOfTile;
  const int share = (all_tiles + call.splits - 1) / call.splits;
  const int first_key = min(static_cast<int>(blockIdx.y) * share, all_tiles) * kKeysOfTile;
  const int last_key = min(first_key + share * kKeysOfTile, all_keys);

  // The entries of a tile are looked up one tile ahead, so that no copy waits for its address. Negative: none.
  auto look_up = [&](int first, int buffer) {
    if (threadIdx.x >= kKeysOfTile) return;
    const int j = first + static_cast<int>(threadIdx.x);
    const int key = j < last_key ? (picks != nullptr ? picks[j] : j) : -1;
    entry_of[buffer * kKeysOfTile + threadIdx.x] = key < 0 ? -1 : static_cast<int>(latent_entry(call, s, key));
  };
  auto load_entries = [&](int buffer) {
#pragma unroll 6
    for (int i = 0; i < kKeysOfTile * kEntryChunks / kTileThreads; ++i) {
      const int at = threadIdx.x + i * kTileThreads, row = at / kEntryChunks, chunk = at % kEntryChunks;
      const int entry = entry_of[buffer * kKeysOfTile + row];
      const T* from = static_cast<const T*>(call.cache) + latent_offset(call, max(entry, 0)) + 8 * chunk;
      copy_async(entries(buffer).chunk(row, chunk), from, entry >= 0);
    }
  };

  const float before = call.scale * kLog2E;
  float mean[kLatent / 2 / 8][4] = {};
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
  const int my_row[2] = {row_group * 16 + group, row_group * 16 + group + 8};
  int my_keys[2];
#pragma unroll
  for (int r = 0; r < 2; ++r)
    my_keys[r] = my_row[r] >= rows ? 0 : picks != nullptr ? all_keys : latent_keys(call, s, token_of(my_row[r]));

  look_up(first_key, 0);
  __syncthreads();
  load_entries(0);
  commit_copies();
  look_up(first_key + kKeysOfTile, 1);
  __syncthreads();
  int buffer = 0;
  for (int first = first_key; first < last_key; first += kKeysOfTile, buffer ^= 1) {
    if (first + kKeysOfTile < last_key) load_entries(buffer ^ 1);
    commit_copies();
    wait_copies<1>();
    __syncthreads();

    // Scores: 16 rows by 32 keys.
    float score[4][4] = {};
#pragma unroll 4
    for (int k = 0; k < kEntry / 16; ++k) {
      uint32_t a[4];
      load_matrices(a, queries.chunk(row_group * 16 + lane % 16, 2 * k + lane / 16));
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        uint32_t b[4];
        load_matrices(b, entries(buffer).chunk(half * 32 + n * 16 + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
        multiply_tile<T>(score[2 * n], a[0], a[1], a[2], a[3], b[0], b[1]);
        multiply_tile<T>(score[2 * n + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
      }
    }
    float tile_largest[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int in_tile = half * 32 + n * 8 + 2 * quad + i % 2;
        const bool seen = first + in_tile < my_keys[i / 2] && entry_of[buffer * kKeysOfTile + in_tile] >= 0;
        score[n][i] = seen ? score[n][i] * before : -INFINITY;
        tile_largest[i / 2] = fmaxf(tile_largest[i / 2], score[n][i]);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      tile_largest[r] = fmaxf(tile_largest[r], __shfl_xor_sync(kAllLanes, tile_largest[r], 1));
      tile_largest[r] = fmaxf(tile_largest[r], __shfl_xor_sync(kAllLanes, tile_largest[r], 2));
      if (quad == 0) half_largest[half * kRowsOfTile + my_row[r]] = tile_largest[r];
    }
    __syncthreads();
    // The other buffer's entries are on their way and this one's are used no more: the one after them may be looked up.
    look_up(first + 2 * kKeysOfTile, buffer);

    float shrink[2], safe[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float both = fmaxf(half_largest[my_row[r]], half_largest[kRowsOfTile + my_row[r]]);
      const float new_largest = fmaxf(largest[r], both);
      safe[r] = new_largest == -INFINITY ? 0.0f : new_largest;
      shrink[r] = exp2_quick(largest[r] - safe[r]);
      largest[r] = new_largest;
      sum[r] *= shrink[r];
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        score[n][i] = exp2_quick(score[n][i] - safe[i / 2]);
        sum[i / 2] += score[n][i];
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const uint32_t at = weights.chunk(my_row[r], half * 4 + n) + 4 * static_cast<uint32_t>(quad);
        const uint32_t pair = pack_two<T>(score[n][2 * r], score[n][2 * r + 1]);
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(pair) : "memory");
      }
    }
#pragma unroll
    for (int n = 0; n < kLatent / 2 / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) mean[n][i] *= shrink[i / 2];
    }
    __syncthreads();

    // Means: 16 rows by 256 elements.
#pragma unroll
    for (int k = 0; k < kKeysOfTile / 16; ++k) {
      uint32_t a[4];
      load_matrices(a, weights.chunk(row_group * 16 + lane % 16, 2 * k + lane / 16));
#pragma unroll
      for (int n = 0; n < kLatent / 2 / 16; ++n) {
        uint32_t b[4];
        load_matrices_transposed(b, entries(buffer).chunk(k * 16 + lane % 16, half * 32 + 2 * n + lane / 16));
        multiply_tile<T>(mean[2 * n], a[0], a[1], a[2], a[3], b[0], b[1]);
        multiply_tile<T>(mean[2 * n + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
      }
    }
    __syncthreads();  // before the next copies and weights overwrite these
  }
  wait_copies<0>();

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] += __shfl_xor_sync(kAllLanes, sum[r], 1);
    sum[r] += __shfl_xor_sync(kAllLanes, sum[r], 2);
    if (quad == 0) half_sum[half * kRowsOfTile + my_row[r]] = sum[r];
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (my_row[r] >= rows) continue;
    const float total = half_sum[my_row[r]] + half_sum[kRowsOfTile + my_row[r]];
    const bool none = largest[r] == -INFINITY;
    const float scale = none ? 0.0f : 1 / total;
    const float lse = none ? -INFINITY : (largest[r] + log2f(total)) * (1 / kLog2E);
    const int token = token_of(my_row[r]), head = head_of(my_row[r]);
    const int column = half * (kLatent / 2) + 2 * quad;
    if (call.splits > 1) {
      const int64_t at = (static_cast<int64_t>(token) * call.heads + head) * call.splits + blockIdx.y;
      float* out = call.partial + at * kLatent + column;
#pragma unroll
      for (int n = 0; n < kLatent / 2 / 8; ++n)
        *reinterpret_cast<float2*>(out + 8 * n) = make_float2(mean[n][2 * r] * scale, mean[n][2 * r + 1] * scale);
      if (half == 0 && quad == 0) call.partial_lse[at] = lse;
    } else {
      T* out = static_cast<T*>(call.out) + token * call.out_token + head * call.out_head + column;
#pragma unroll
      for (int n = 0; n < kLatent / 2 / 8; ++n)
        *reinterpret_cast<uint32_t*>(out + 8 * n) = pack_two<T>(mean[n][2 * r] * scale, mean[n][2 * r + 1] * scale);
      if (call.lse != nullptr && half == 0 && quad == 0) call.lse[head * call.lse_head + token] = lse;
    }
  }
}

constexpr int kMergeThreads = 128;

// A block for each query and head: its splits, always in the same order.
template <class T>
__global__ void __launch_bounds__(kMergeThreads) merge_latents(LatentCall call) {
  let_next_start();
  wait_for_previous();
  const int head = blockIdx.x % call.heads, token = blockIdx.x / call.heads;
  const float* lse = call.partial_lse + static_cast<int64_t>(blockIdx.x) * call.splits;
  const float* partial = call.partial + static_cast<int64_t>(blockIdx.x) * call.splits * kLatent + 4 * threadIdx.x;
  float largest = -INFINITY, sum = 0;
  for (int i = 0; i < call.splits; ++i) largest = fmaxf(largest, lse[i]);
  float4 mean = make_float4(0, 0, 0, 0);
  for (int i = 0; i < call.splits; ++i) {
    if (lse[i] == -INFINITY) continue;
    const float weight = exp2_quick((lse[i] - largest) * kLog2E);
    const float4 part = *reinterpret_cast<const float4*>(partial + static_cast<int64_t>(i) * kLatent);
    sum += weight;
    mean.x += weight * part.x;
    mean.y += weight * part.y;
    mean.z += weight * part.z;
    mean.w += weight * part.w;
  }
  const float scale = sum > 0 ? 1 / sum : sum;  // a NaN stays one
  T* out = static_cast<T*>(call.out) + token * call.out_token + head * call.out_head + 4 * threadIdx.x;
  out[0] = from_float<T>(mean.x * scale);
  out[1] = from_float<T>(mean.y * scale);
  out[2] = from_float<T>(mean.z * scale);
  out[3] = from_float<T>(mean.w * scale);
  if (call.lse != nullptr && threadIdx.x == 0)
    call.lse[head * call.lse_head + token] = largest == -INFINITY ? -INFINITY : largest + logf(sum);
}

int row_tiles(const LatentCall& call) {
  if (call.cu_seqlens_q == nullptr || call.indices != nullptr)
    return call.tokens * ((call.heads + kRowsOfTile - 1) / kRowsOfTile);
  // Every sequence may leave its last tile partly empty.
  return call.tokens * call.heads / kRowsOfTile + call.sequences;
}

template <class T>
void launch_latent_tiles(const LatentCall& call, void* stream) {
  static const bool allowed = (allow_shared_memory("latent_tiles", latent_tiles_kernel<T>, kSharedBytes), true);
  static_cast<void>(allowed);
  launch("latent_tiles", latent_tiles_kernel<T>,
         dim3(static_cast<unsigned>(row_tiles(call)), static_cast<unsigned>(call.splits)), kTileThreads, kSharedBytes,
         stream, call);
  if (call.splits > 1)
    launch("merge_latents", merge_latents<T>, static_cast<unsigned>(call.tokens * call.heads), kMergeThreads, 0, stream,
           call);
}

bool on_16_bytes(const void* address, int64_t token, int64_t head) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0 && token % 8 == 0 && head % 8 == 0;
}

}  // namespace

std::string_view latent_tiles_refusal(const LatentCall& call) {
  if (call.dtype != DType::kBF16 && call.dtype != DType::kF16) return "it attends in bf16 and f16";
  if (call.latent != kLatent || call.rope != kRope) return "latents must have 512 elements and rotated parts 64";
  if (!on_16_bytes(call.q_nope, call.nope_token, call.nope_head) ||
      !on_16_bytes(call.q_pe, call.pe_token, call.pe_head) || !on_16_bytes(call.cache, call.block_stride, call.entry_stride) ||
      !on_16_bytes(call.out, call.out_token, call.out_head))
    return "heads and entries must start on 16 bytes";
  if (shared_memory_of_block() < kSharedBytes) return "it needs 225 KiB of shared memory for a block";
  return {};
}

int latent_tiles_splits(const LatentCall& call) {
  static const int processors = [] {
    int device = 0, count = 0;
    check(cudaGetDevice(&device), "Asking for the device");
    check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "Counting multiprocessors");
    return count;
  }();
  int most = 64;  // 4096 keys in tiles of 64
  if (call.indices != nullptr) most = std::min(most, (call.num_indices + kKeysOfTile - 1) / kKeysOfTile);
  return std::clamp(processors / std::max(1, row_tiles(call)), 1, std::max(1, most));
}

void latent_tiles(const LatentCall& call, void* stream) {
  if (call.tokens == 0) return;
  if (call.dtype == DType::kBF16)
    launch_latent_tiles<__nv_bfloat16>(call, stream);
  else
    launch_latent_tiles<__half>(call, stream);
}

}  // namespace fk::cuda
