// Decoding on tensor cores: the query heads that share a kv head are the rows of the products, so a key is read
// once for all of them (register_tile.cuh).
//
// The blocks of a sequence are distributed over warps and over the thread blocks of a cluster, which combine their
// results through distributed shared memory. Heads too wide for the registers of a warp are divided over the four
// warps of a team, which add up their scores.
#include "backend/cuda/attention/decode_split.h"

#include <cooperative_groups.h>

#include <algorithm>

#include "backend/cuda/attention/decode_shares.h"
#include "backend/cuda/attention/register_tile.cuh"
#include "backend/cuda/device/launch.cuh"

namespace fk::cuda {
namespace {

constexpr int kKeys = kTileKeys;  // of a step of a warp
constexpr int kMaxGroup = 8;

// A block: teams of warps that take different keys; the warps of a team divide the elements of a head.
template <int kHeadSize_>
struct HeadCut {
  static constexpr int kHeadSize = kHeadSize_;
  static constexpr int kParts = kHeadSize > 256 ? 4 : 1;  // warps of a team
  static constexpr int kTeams = kParts > 1 ? 2 : 4;
  static constexpr int kSlice = kHeadSize / kParts;  // elements of a warp
  static constexpr int kThreads = 32 * kTeams * kParts;
  static constexpr int kBlocksAtOnce = kParts > 1 ? 1 : kHeadSize > 128 ? 2 : 3;  // of a multiprocessor
};

// The sum of the scores of a team's warps, in the same order in each.
template <class C>
__device__ __forceinline__ void add_scores(float (&score)[2][4], int team, int part, int step) {
  __shared__ float4 shared[2][C::kTeams][C::kParts][32];  // two steps: a slow warp may still read the last one
  const int lane = threadIdx.x % 32;
  shared[step % 2][team][part][lane] = make_float4(score[0][0], score[0][1], score[1][0], score[1][1]);
  asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(32 * C::kParts) : "memory");
  float4 all = shared[step % 2][team][0][lane];
#pragma unroll
  for (int p = 1; p < C::kParts; ++p) {
    const float4 other = shared[step % 2][team][p][lane];
    all.x += other.x, all.y += other.y, all.z += other.z, all.w += other.w;
  }
  score[0][0] = all.x, score[0][1] = all.y, score[1][0] = all.z, score[1][1] = all.w;
}

template <class T, class C>
__global__ void __launch_bounds__(C::kThreads, C::kBlocksAtOnce)
    decode_cluster(AttentionCall call, int blocks_per_head) {
  constexpr int kHeadSize = C::kHeadSize, kThreads = C::kThreads, kTeams = C::kTeams;
  const int team = threadIdx.x / (32 * C::kParts), part = threadIdx.x / 32 % C::kParts, slice = part * C::kSlice;
  const int s = blockIdx.z, kv_head = blockIdx.y, piece = blockIdx.x;
  const int group = call.heads / call.kv_heads;
  wait_for_previous();

  const int length = call.seq_lens[s];
  const VisibleKeys keys = visible_keys(call, length - 1, length);
  const int first = keys.first / kKeys + piece * kTeams + team, stride = blocks_per_head * kTeams;
  CacheStream<T, C::kSlice> cache(call, kv_head, slice);
  cache.follow_with({.table = call.block_table + s * call.table_width,
                     .first = first,
                     .stride = stride,
                     .steps = max(0, ((keys.last + kKeys - 1) / kKeys - first + stride - 1) / stride),
                     .last_key = keys.last});
  cache.load_keys(0);
  cache.load_values(0);
  cache.go_on();
  cache.follow_with({});
  RegisterTile<T, C::kSlice> tile;
  tile.start(call, s, kv_head, slice);
  for (int step = 0; step < cache.steps(); ++step)
    tile.attend(call, cache, step, keys, [&](float(&score)[2][4]) {
      if constexpr (C::kParts > 1) add_scores<C>(score, team, part, step);
    });
  // Not earlier: the next kernel would begin to load its weights and delay our keys and values.
  let_next_start();

  // Results of the teams of the block: means[team][head][element].
  alignas(16) __shared__ float means[kTeams][kMaxGroup][kHeadSize];
  __shared__ Running states[kTeams][kMaxGroup];
  tile.save(&means[team][0][slice], kHeadSize, states[team], group, part == 0);
  __syncthreads();
  for (int at = threadIdx.x; at < group * kHeadSize; at += kThreads) {
    const int head = at / kHeadSize, i = at % kHeadSize;
    Running all = states[0][head];
    float value = means[0][head][i];
#pragma unroll
    for (int w = 1; w < kTeams; ++w) {
      float mine, theirs;
      all = join(all, states[w][head], mine, theirs);
      value = value * mine + means[w][head][i] * theirs;
    }
    means[0][head][i] = value;  // only this thread has read it so far
  }
  __syncthreads();
  __shared__ Running block_states[kMaxGroup];
  if (threadIdx.x < group) {
    Running all = states[0][threadIdx.x];
    for (int w = 1; w < kTeams; ++w) {
      float mine, theirs;
      all = join(all, states[w][threadIdx.x], mine, theirs);
    }
    block_states[threadIdx.x] = all;
  }
  __syncthreads();

  auto store = [&](int at, float value, const Running& all) {
    store_result<T>(call, s, kv_head * group + at / kHeadSize, at % kHeadSize, value, all);
  };
  float* block_means = &means[0][0][0];
  if (blocks_per_head == 1) {
    for (int at = threadIdx.x; at < group * kHeadSize; at += kThreads)
      store(at, block_means[at], block_states[at / kHeadSize]);
    return;
  }
#if __CUDA_ARCH__ >= 900
  // Each block of the cluster writes a part of the elements, combined from all blocks.
  auto cluster = cooperative_groups::this_cluster();
  cluster.sync();
  for (int at = piece * kThreads + threadIdx.x; at < group * kHeadSize; at += blocks_per_head * kThreads) {
    Running all{-INFINITY, 0};
    float value = 0;
    for (int p = 0; p < blocks_per_head; ++p) {
      float mine, theirs;
      all = join(all, *cluster.map_shared_rank(&block_states[at / kHeadSize], p), mine, theirs);
      value = value * mine + *cluster.map_shared_rank(&block_means[at], p) * theirs;
    }
    store(at, value, all);
  }
  cluster.sync();  // no block may exit while another reads its memory
#endif
}

// Blocks for the keys of one head. Depends only on the shapes, so that a graph stays correct while sequences grow: up
// to three per multiprocessor, as long as every team has keys.
int blocks_per_head(const AttentionCall& call, int teams) {
  constexpr int kBlocksWanted = 396, kMostBlocks = 8;
  if (!has_hopper_launches()) return 1;
  int64_t steps = call.table_width;
  if (call.window > 0) steps = std::min<int64_t>(steps, call.window / kKeys + 2);
  if (call.chunk > 0) steps = std::min<int64_t>(steps, call.chunk / kKeys + 2);
  int blocks = 1;
  while (blocks < kMostBlocks && 2 * blocks * call.sequences * call.kv_heads <= kBlocksWanted &&
         steps >= 2 * blocks * teams)
    blocks *= 2;
  return blocks;
}

template <class T, int kHeadSize>
void launch_cluster(const AttentionCall& call, void* stream) {
  using C = HeadCut<kHeadSize>;
  const int blocks = blocks_per_head(call, C::kTeams);
  launch("decode_cluster", decode_cluster<T, C>,
         LaunchShape{.grid = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(call.kv_heads),
                                  static_cast<unsigned>(call.sequences)),
                     .block = C::kThreads,
                     .cluster = static_cast<unsigned>(blocks)},
         stream, call, blocks);
}

template <class T>
void launch_head_size(const AttentionCall& call, void* stream) {
  if (call.head_size == 64)
    launch_cluster<T, 64>(call, stream);
  else if (call.head_size == 128)
    launch_cluster<T, 128>(call, stream);
  else if (call.head_size == 256)
    launch_cluster<T, 256>(call, stream);
  else
    launch_cluster<T, 512>(call, stream);
}

}  // namespace

std::string_view decode_split_refusal(const AttentionCall& call) {
  if (call.dtype != DType::kBF16 && call.dtype != DType::kF16) return "it attends in bf16 and f16";
  if (call.head_size != 64 && call.head_size != 128 && call.head_size != 256 && call.head_size != 512)
    return "heads have 64, 128, 256 or 512 elements";
  if (call.heads / call.kv_heads > kMaxGroup) return "at most 8 heads share a kv head";
  if (!heads_on_16_bytes(call)) return "heads must start on 16 bytes";
  if (!pages_are_tiles(call)) return "pages must hold 16 tokens";
  if (call.sequences > 65535) return "at most 65535 sequences";
  if (decode_shares_preferred(call)) return "many sequences are shared equally by all blocks in another kernel";
  return {};
}

void attention_decode_split(const AttentionCall& call, void* stream) {
  if (call.dtype == DType::kBF16)
    launch_head_size<__nv_bfloat16>(call, stream);
  else
    launch_head_size<__half>(call, stream);
}

}  // namespace fk::cuda
