// Decoding on tensor cores: the query heads that share a kv head are the rows of the products, so a key is read
// once for all of them.
//
// A warp takes one block of the cache, 16 keys, at a time. In the layout of mma.m16n8k16 a thread holds pairs of
// elements that are not adjacent. Any order of the columns is allowed if both operands agree, so each thread loads runs
// of 16 bytes (cache_stream.cuh). For scores the keys are the 8-column operand and the queries the 16 rows. For the
// weighted values, pairs of keys are interleaved element by element, two elements are two of the 16 rows, and the heads
// are the 8 columns. The blocks of a sequence are distributed over warps and over the thread blocks of a cluster, which
// combine their results through distributed shared memory. Heads too wide for the registers of a warp are divided over
// the four warps of a team, which add up their scores.
#include "backend/cuda/attention/decode_split.h"

#include <cooperative_groups.h>

#include <algorithm>

#include "backend/cuda/attention/cache_stream.cuh"
#include "backend/cuda/attention/decode_pages.h"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/device/tile.cuh"

namespace fk::cuda {
namespace {

constexpr int kKeys = kTileKeys;  // of a step of a warp
static_assert(kKeys == 16, "a block of the cache is one product's worth of keys");
constexpr int kMaxGroup = 8;
constexpr float kLog2E = 1.4426950408889634f;

// Partial softmax over some keys: largest score (as an exponent of two) and sum of weights; the weighted values are
// stored separately.
struct Running {
  float largest;
  float sum;
};

// The combination of a and b; scales for the values of each.
__device__ __forceinline__ Running join(Running a, Running b, float& scale_a, float& scale_b) {
  const float largest = fmaxf(a.largest, b.largest);
  const float safe = largest == -INFINITY ? 0.0f : largest;
  scale_a = exp2f(a.largest - safe);
  scale_b = exp2f(b.largest - safe);
  return {largest, a.sum * scale_a + b.sum * scale_b};
}

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
  constexpr int kScoreRuns = C::kSlice / 32;  // runs of 16 bytes a thread takes of a key
  constexpr int kValueRuns = C::kSlice / 64;  // and of each of its four values
  constexpr int kPairs = 4 * kValueRuns;      // of elements in these
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int team = threadIdx.x / (32 * C::kParts), part = threadIdx.x / 32 % C::kParts, slice = part * C::kSlice;
  const int s = blockIdx.z, kv_head = blockIdx.y, piece = blockIdx.x;
  const int group = call.heads / call.kv_heads;
  let_next_start();
  wait_for_previous();

  const int length = call.seq_lens[s];
  const VisibleKeys keys = visible_keys(call, length - 1, length);
  CacheStream<T, C::kSlice> cache(call, s, kv_head, keys, keys.first / kKeys + piece * kTeams + team,
                                  blocks_per_head * kTeams, slice);

  // Row g of the queries is head g of the group; rows 8 to 15 stay empty.
  uint4 q[kScoreRuns];
  const T* q_row = static_cast<const T*>(call.q) + s * call.q_strides.token +
                   (kv_head * group + min(g, group - 1)) * call.q_strides.head + slice + 8 * t;
#pragma unroll
  for (int c = 0; c < kScoreRuns; ++c) q[c] = *reinterpret_cast<const uint4*>(q_row + 32 * c);

  const float before = call.soft_cap > 0 ? call.scale : call.scale * kLog2E;
  float mean[kPairs][4] = {};  // two elements each, both for heads 2t and 2t + 1
  float largest = -INFINITY, sum = 0;

  for (int step = 0; step < cache.steps(); ++step) {
    const int first_key = cache.first_key(step);
    float score[2][4] = {};
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int c = 0; c < kScoreRuns; ++c) {
        const uint4 k = cache.key(h, c);
        multiply_tile<T>(score[h], q[c].x, 0, q[c].y, 0, k.x, k.y);
        multiply_tile<T>(score[h], q[c].z, 0, q[c].w, 0, k.z, k.w);
      }
    cache.load_keys(step + 1);
    if constexpr (C::kParts > 1) add_scores<C>(score, team, part, step);
    float new_largest = largest;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& value = score[i / 2][i % 2];
      const int j = first_key + 8 * (i / 2) + 2 * t + i % 2;
      value *= before;
      if (call.soft_cap > 0) value = capped(value, call.soft_cap) * kLog2E;
      if (j < keys.first || j >= keys.last) value = -INFINITY;
      new_largest = fmaxf(new_largest, value);
    }
    new_largest = fmaxf(new_largest, __shfl_xor_sync(kAllLanes, new_largest, 1));
    new_largest = fmaxf(new_largest, __shfl_xor_sync(kAllLanes, new_largest, 2));
    const float safe = new_largest == -INFINITY ? 0.0f : new_largest;
    const float shrink = exp2f(largest - safe);
    largest = new_largest;
    sum *= shrink;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& value = score[i / 2][i % 2];
      value = exp2f(value - safe);
      sum += value;
    }
    const uint32_t weight[2] = {pack_two<T>(score[0][0], score[0][1]), pack_two<T>(score[1][0], score[1][1])};
    if (__any_sync(kAllLanes, shrink != 1)) {
      const float shrinks[2] = {__shfl_sync(kAllLanes, shrink, 8 * t), __shfl_sync(kAllLanes, shrink, 8 * t + 4)};
#pragma unroll
      for (int i = 0; i < kPairs; ++i)
#pragma unroll
        for (int c = 0; c < 4; ++c) mean[i][c] *= shrinks[c % 2];
    }
#pragma unroll
    for (int c = 0; c < kValueRuns; ++c) {
      const uint4 v[4] = {cache.value(0, c), cache.value(1, c), cache.value(2, c), cache.value(3, c)};
      const uint32_t words[4][4] = {{v[0].x, v[0].y, v[0].z, v[0].w},
                                    {v[1].x, v[1].y, v[1].z, v[1].w},
                                    {v[2].x, v[2].y, v[2].z, v[2].w},
                                    {v[3].x, v[3].y, v[3].z, v[3].w}};
#pragma unroll
      for (int w = 0; w < 4; ++w)
        multiply_tile<T>(mean[4 * c + w], low_halves(words[0][w], words[1][w]), high_halves(words[0][w], words[1][w]),
                         low_halves(words[2][w], words[3][w]), high_halves(words[2][w], words[3][w]), weight[0],
                         weight[1]);
    }
    cache.load_values(step + 1);
  }
  sum += __shfl_xor_sync(kAllLanes, sum, 1);
  sum += __shfl_xor_sync(kAllLanes, sum, 2);

  // Results of the teams of the block: means[team][head][element].
  __shared__ float means[kTeams][kMaxGroup][kHeadSize];
  __shared__ Running states[kTeams][kMaxGroup];
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    if (2 * t + c >= group) continue;
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
      *reinterpret_cast<float2*>(&means[team][2 * t + c][slice + i / 4 * 64 + 8 * g + i % 4 * 2]) = {mean[i][c],
                                                                                                     mean[i][2 + c]};
  }
  if (g < group && t == 0 && part == 0) states[team][g] = {largest, sum};
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
    const int head = kv_head * group + at / kHeadSize;
    const float total = all.sum + sink_weight(call, head, all.largest);
    T* out = static_cast<T*>(call.out) + s * call.out_strides.token + head * call.out_strides.head + at % kHeadSize;
    float result = total == 0 ? 0.0f : value / total;
    if (call.gate != nullptr) {  // rounded, as sigmoid_mul reads it
      const float gate = to_float(static_cast<const T*>(
          call.gate)[s * call.gate_strides.token + head * call.gate_strides.head + at % kHeadSize]);
      result = to_float(from_float<T>(result)) / (1.0f + expf(-gate));
    }
    *out = from_float<T>(result);
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
  if (decode_pages_preferred(call)) return "many sequences share all multiprocessors equally in another kernel";
  return {};
}

void attention_decode_split(const AttentionCall& call, void* stream) {
  if (call.dtype == DType::kBF16)
    launch_head_size<__nv_bfloat16>(call, stream);
  else
    launch_head_size<__half>(call, stream);
}

}  // namespace fk::cuda
