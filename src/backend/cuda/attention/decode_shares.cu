// As many blocks as the device runs at once share the keys of all sequences equally. The blocks of one share, one for
// each kv head, walk through the same pages of the cache, so that rows of the cache are read by all of them at about
// the same time.
//
// The list of work is that of PageWork, whose unit is a page for each of the four warps of a block. A warp loads the
// first page of the next sequence while it still attends to the last one of this sequence: memory is read without a
// break while results are combined. A sequence that falls into several shares leaves partial results in scratch memory,
// and the block that comes last combines them, always in the same order.
//
// The first pages are loaded before the previous kernel has ended (call.h, cache_settled).
#include "backend/cuda/attention/decode_shares.h"

#include <algorithm>

#include "backend/cuda/attention/page_work.cuh"
#include "backend/cuda/attention/register_tile.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/multiprocessors.h"

namespace fk::cuda {
namespace {

constexpr int kMostGroup = 8;         // query heads of a kv head
constexpr int kMostSequences = 2048;  // whose sums are in shared memory
constexpr int kMostCounters = 1 << 16;
constexpr int kTeams = 4;  // warps of a block

// Finished parts of each sequence and kv head. Zero between two launches: the block that finishes last resets it.
[[maybe_unused]] __device__ unsigned shares_done[kMostCounters];

template <int kHeadSize>
constexpr int blocks_at_once = kHeadSize > 128 ? 2 : 3;  // on a multiprocessor

// Of a partial result: for each head the weighted values, the largest score and the sum of weights.
constexpr int floats_of_part(int head_size, int group) { return group * (head_size + 2); }

#if __CUDA_ARCH__ >= 900

__device__ __forceinline__ unsigned load_acquire(const unsigned* address) {
  unsigned value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

__device__ __forceinline__ CacheRun run_of(const AttentionCall& call, const Segment& s, int team) {
  const int first = s.first_page + team;
  return {.table = call.block_table + s.sequence * call.table_width,
          .first = first,
          .stride = kTeams,
          .steps = max(0, min(s.units, (s.last_page - first + kTeams) / kTeams)),
          .last_key = s.keys.last};
}

// The partial results of the teams of a block for one segment, in shared memory.
template <int kHeadSize>
struct alignas(16) TeamResults {
  float means[kTeams][kMostGroup][kHeadSize];
  Running states[kTeams][kMostGroup];

  // Weighted values at `at` = [head][element], over all keys of the segment.
  __device__ __forceinline__ float value(int at, Running& all) const {
    const int head = at / kHeadSize, i = at % kHeadSize;
    all = states[0][head];
    float value = means[0][head][i];
#pragma unroll
    for (int w = 1; w < kTeams; ++w) {
      float mine, theirs;
      all = join(all, states[w][head], mine, theirs);
      value = value * mine + means[w][head][i] * theirs;
    }
    return value;
  }
};

// A segment that is a part of its sequence: saves it, or if all other parts have been saved, combines all and stores
// the result.
template <class T, int kHeadSize>
__device__ __forceinline__ void finish_part(const AttentionCall& call, const PageWork& work, const Segment& segment,
                                            int kv_head, const TeamResults<kHeadSize>& results, float* scratch) {
  __shared__ unsigned done;
  const int group = call.heads / call.kv_heads, elements = group * kHeadSize;
  const int first_block = work.block_of(segment.sequence_begin), last_block = work.block_of(segment.sequence_end - 1);
  const int parts = last_block - first_block + 1, own = static_cast<int>(blockIdx.x) - first_block;
  const auto others = static_cast<unsigned>(parts - 1);
  // Each block has at most two partial results: of the first sequence of its share, and of the last.
  auto place = [&](int part) {
    const int block = first_block + part, which = work.first_unit_of(block) >= segment.sequence_begin ? 0 : 1;
    return scratch +
           (static_cast<int64_t>(2 * block + which) * call.kv_heads + kv_head) * floats_of_part(kHeadSize, group);
  };
  unsigned* counter = shares_done + segment.sequence * call.kv_heads + kv_head;
  if (threadIdx.x == 0) done = load_acquire(counter);
  __syncthreads();
  if (done != others) {
    float* to = place(own);
    for (int at = threadIdx.x; at < elements; at += blockDim.x) {
      Running all;
      to[at] = results.value(at, all);
      if (at % kHeadSize == 0) *reinterpret_cast<float2*>(to + elements + at / kHeadSize * 2) = {all.largest, all.sum};
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      done = atomicAdd(counter, 1);
      __threadfence();
    }
    __syncthreads();
    if (done != others) return;
  }
  if (threadIdx.x == 0) *counter = 0;
  for (int at = threadIdx.x; at < elements; at += blockDim.x) {
    Running all{-INFINITY, 0};
    float value = 0;
    for (int part = 0; part < parts; ++part) {
      Running other;
      float other_value, mine, theirs;
      if (part == own) {
        other_value = results.value(at, other);
      } else {  // past the L1
        const float* from = place(part);
        const float2 state = __ldcg(reinterpret_cast<const float2*>(from + elements + at / kHeadSize * 2));
        other = {state.x, state.y};
        other_value = __ldcg(from + at);
      }
      all = join(all, other, mine, theirs);
      value = value * mine + other_value * theirs;
    }
    store_result<T>(call, segment.sequence, kv_head * group + at / kHeadSize, at % kHeadSize, value, all);
  }
}

#endif

template <class T, int kHeadSize>
__global__ void __launch_bounds__(32 * kTeams, blocks_at_once<kHeadSize>)
    decode_shares(const __grid_constant__ AttentionCall call, float* scratch) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ int begins[];
  __shared__ TeamResults<kHeadSize> results;
  // In shared memory, because a step needs all registers.
  __shared__ Segment segments[2];
  const int team = threadIdx.x / 32, kv_head = blockIdx.y;
  let_next_start();
  if (!call.cache_settled) wait_for_previous();
  const PageWork work(call, kTeams, begins);
  CacheStream<T, kHeadSize> cache(call, kv_head);
  RegisterTile<T, kHeadSize> tile;
  {
    const Segment first = work.first_segment();
    if (threadIdx.x == 0) segments[0] = first;
    cache.follow_with(run_of(call, first, team));
    // The previous kernel may still be writing the page of the last key.
    const bool early = call.cache_settled && first.first_page + team < first.last_page;
    if (early) {
      cache.load_keys(0);
      cache.load_values(0);
    }
    if (call.cache_settled) wait_for_previous();
    if (!early) {
      cache.load_keys(0);
      cache.load_values(0);
    }
    cache.go_on();
  }
  zero_empty_sequences<T>(call, work);
  __syncthreads();
  for (int i = 0; segments[i % 2].units > 0; ++i) {
    VisibleKeys keys;
    {
      const Segment now = segments[i % 2], next = work.after(now);
      if (threadIdx.x == 0) segments[(i + 1) % 2] = next;
      cache.follow_with(run_of(call, next, team));
      tile.start(call, now.sequence, kv_head);
      keys = now.keys;
    }
    for (int step = 0; step < cache.steps(); ++step) tile.attend(call, cache, step, keys, [](float(&)[2][4]) {});
    if (cache.steps() == 0) {
      cache.load_keys(0);
      cache.load_values(0);
    }
    cache.go_on();
    tile.save(&results.means[team][0][0], kHeadSize, results.states[team], call.heads / call.kv_heads, true);
    __syncthreads();
    const Segment now = segments[i % 2];
    if (now.whole) {
      const int group = call.heads / call.kv_heads;
      for (int at = threadIdx.x; at < group * kHeadSize; at += blockDim.x) {
        Running all;
        const float value = results.value(at, all);
        store_result<T>(call, now.sequence, kv_head * group + at / kHeadSize, at % kHeadSize, value, all);
      }
    } else {
      finish_part<T>(call, work, now, kv_head, results, scratch);
    }
    __syncthreads();  // before the next results are saved
  }
#endif
}

int shares(const AttentionCall& call) {
  const int at_once = (call.head_size > 128 ? blocks_at_once<256> : blocks_at_once<128>)*multiprocessors();
  return std::max(1, at_once / call.kv_heads);
}

template <class T, int kHeadSize>
void launch_shares(const AttentionCall& call, float* scratch, void* stream) {
  launch("decode_shares", decode_shares<T, kHeadSize>,
         dim3(static_cast<unsigned>(shares(call)), static_cast<unsigned>(call.kv_heads)), 32 * kTeams,
         sizeof(int) * static_cast<size_t>(call.sequences + 1), stream, call, scratch);
}

template <class T>
void launch_shares_of(const AttentionCall& call, float* scratch, void* stream) {
  if (call.head_size == 64)
    launch_shares<T, 64>(call, scratch, stream);
  else if (call.head_size == 128)
    launch_shares<T, 128>(call, scratch, stream);
  else
    launch_shares<T, 256>(call, scratch, stream);
}

}  // namespace

std::string_view decode_shares_refusal(const AttentionCall& call) {
  if (!has_hopper_launches()) return "it starts as Hopper and later devices do";
  if (call.dtype != DType::kBF16 && call.dtype != DType::kF16) return "it attends in bf16 and f16";
  if (call.head_size != 64 && call.head_size != 128 && call.head_size != 256)
    return "heads have 64, 128 or 256 elements";
  if (call.heads / call.kv_heads > kMostGroup) return "at most 8 heads share a kv head";
  if (!heads_on_16_bytes(call)) return "heads must start on 16 bytes";
  if (call.block_table == nullptr || !pages_are_tiles(call)) return "pages must hold 16 tokens";
  if (call.sequences > kMostSequences || call.sequences * call.kv_heads > kMostCounters)
    return "at most 2048 sequences and 65536 kv heads of all of them";
  return {};
}

// Measured with 32 and more sequences (docs/results/serving.md). With fewer, only long ones gain from equal shares.
bool decode_shares_preferred(const AttentionCall& call) {
  constexpr int kManySequences = 32, kManyPages = 128;
  const bool long_ones =
      call.sequences >= kFewestShared && call.table_width >= kManyPages && call.window == 0 && call.chunk == 0;
  return (call.sequences >= kManySequences || long_ones) && decode_shares_refusal(call).empty();
}

int64_t decode_shares_scratch(const AttentionCall& call) {
  return int64_t{2} * shares(call) * call.kv_heads * floats_of_part(call.head_size, call.heads / call.kv_heads);
}

void attention_decode_shares(const AttentionCall& call, float* scratch, void* stream) {
  if (call.dtype == DType::kBF16)
    launch_shares_of<__nv_bfloat16>(call, scratch, stream);
  else
    launch_shares_of<__half>(call, scratch, stream);
}

}  // namespace fk::cuda
