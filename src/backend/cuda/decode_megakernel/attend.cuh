// Attention of one token inside the kernel that computes it: norms, rotary embedding, cache write and the sum over the
// keys, with one block for each kv head, or several if there are many keys.
//
// The products are those of decode_split.cu with one change: values are the 16-row operand and the heads of a group its
// 8 columns, so that no register holds an empty row.
//
// Latency matters here, and most blocks are idle meanwhile: so every 64 elements of the values have their own block,
// which computes the weights of the keys itself. A warp then holds all data of 16 keys in registers, loaded at once.
#pragma once

#include "backend/cuda/decode_megakernel/staging.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/l1/rotary_angles.cuh"

namespace fk::cuda {

// Data that is the same in all layers of a token.
struct TokenSequence {
  int length;    // keys, the new one included
  int64_t slot;  // of the new one
};

struct alignas(16) TokenAttentionMemory {
  float2 angles[kMostRopes][kMostPairs];  // cosine, sine
  alignas(16) __nv_bfloat16 queries[kMostGroup][2 * kMostPairs];
  alignas(16) __nv_bfloat16 key[2 * kMostPairs];
  alignas(16) __nv_bfloat16 value[2 * kMostPairs];
  __nv_bfloat16 q_norm[2 * kMostPairs];
  __nv_bfloat16 k_norm[2 * kMostPairs];
  float largest[kTokenWarps][kMostGroup];
  float sums[kTokenWarps][kMostGroup];
  float shares[kTokenWarps][kMostGroup];  // the weight of a warp's values
  float all_largest[kMostGroup], all_sums[kMostGroup];
  bool came_last;
};

template <class T, int kHeadSize, bool kSinks = false>
class TokenAttention {
  static constexpr int kPairs = kHeadSize / 64;                        // pairs of the rotary embedding per lane
  static constexpr int kScoreRuns = kHeadSize / 32;                    // runs of 16 bytes a thread takes of a key
  static constexpr int kRunsAtOnce = kScoreRuns < 4 ? kScoreRuns : 4;  // limited by registers
  static constexpr int kColumns = 64;                                  // elements of the values that a block has
  static constexpr int kSlices = kHeadSize / kColumns;
  static constexpr int kTiles = kColumns / 16;  // of the values' product
  static constexpr int kKeys = kTokenPage;
  static constexpr float kLog2E = 1.4426950408889634f;
  static_assert(kKeys == 16, "a block of the cache is one product's worth of keys");

 public:
  // `values`: values_bytes() of shared memory.
  __device__ __forceinline__ TokenAttention(const TokenCall& call, const TokenLayer& layer, const TokenCache& cache,
                                            const TokenSequence& sequence, TokenAttentionMemory& memory, float* values,
                                            const float* sinks = nullptr)
      : call_(call),
        layer_(layer),
        memory_(memory),
        values_(values),
        sinks_(sinks),
        length_(sequence.length),
        slot_(sequence.slot),
        group_(call.heads / call.kv_heads),
        head_pairs_((group_ + 1) / 2),
        slice_(static_cast<int>(blockIdx.x) % kSlices),
        kv_head_(static_cast<int>(blockIdx.x) / kSlices % call.kv_heads),
        split_(static_cast<int>(blockIdx.x) / (kSlices * call.kv_heads)) {
    first_key_ = layer_.window > 0 ? max(0, length_ - layer_.window) : 0;
    first_block_ = first_key_ / kKeys;
    blocks_ = (length_ + kKeys - 1) / kKeys - first_block_;
    splits_ = max(1, min((blocks_ + kTokenWarps - 1) / kTokenWarps, room()));
    const int64_t head = static_cast<int64_t>(kv_head_) * kHeadSize;
    keys_ = static_cast<T*>(cache.key) + head;
    cached_values_ = static_cast<T*>(cache.value) + head;
    first_row_ = split_ < splits_ && first_of_warp() < blocks_ ? block_row(first_of_warp()) : 0;
  }

  // Blocks that can share one head's keys.
  __device__ __forceinline__ int room() const { return static_cast<int>(gridDim.x) / (kSlices * call_.kv_heads); }

  static int blocks_at_least(int kv_heads) { return kSlices * kv_heads; }
  static size_t values_bytes(int group) {
    return sizeof(float4) * kTokenWarps * kTiles * 8 * static_cast<size_t>((group + 1) / 2);
  }

  // The old keys and values do not change during the token: they are prefetched into L2 while the queries are computed;
  // so are the weights of the norms.
  __device__ __forceinline__ void fetch_ahead() const {
    if (split_ >= splits_) return;
    const int at = static_cast<int>(threadIdx.x);
    if (layer_.q_norm != nullptr && at < kHeadSize) {
      memory_.q_norm[at] = static_cast<const T*>(layer_.q_norm)[at];
      memory_.k_norm[at] = static_cast<const T*>(layer_.k_norm)[at];
    }
    if constexpr (kSinks)
      if (at == 0) asm volatile("prefetch.global.L2 [%0];" ::"l"(sinks_ + kv_head_ * group_));
    constexpr int kLines = kHeadSize * static_cast<int>(sizeof(T)) / 128;
    const int lane_key = static_cast<int>(threadIdx.x % 32) / 2;  // two lanes a key: one for it, one for its value
    const T* cache = threadIdx.x % 2 == 0 ? keys_ : cached_values_;
    for (int b = first_of_warp(); b < blocks_; b += splits_ * kTokenWarps) {
      const T* row = cache + (block_row(b) + lane_key) * stride();
#pragma unroll
      for (int i = 0; i < kLines; ++i) asm volatile("prefetch.global.L2 [%0];" ::"l"(row + i * (128 / sizeof(T))));
    }
  }

  __device__ __forceinline__ void run() {
    if (split_ >= splits_) return;  // blocks without keys
    if constexpr (kSinks)
      if (threadIdx.x < static_cast<unsigned>(group_)) sink_ = sinks_[kv_head_ * group_ + threadIdx.x] * kLog2E;
    turn_heads();
    meet();
    attend();
    meet();
    weigh_warps();
    meet();
    if (splits_ == 1) return store([&](int at) { return of_block(at); }, memory_.all_sums);
    share_with_others();
  }

 private:
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x / 32); }
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x % 32); }

  __device__ __forceinline__ int first_of_warp() const { return split_ * kTokenWarps + warp(); }
  __device__ __forceinline__ int64_t stride() const { return static_cast<int64_t>(call_.kv_heads) * kHeadSize; }
  // First row of the cache of visible block `b`.
  __device__ __forceinline__ int64_t block_row(int b) const {
    return static_cast<int64_t>(call_.block_table[first_block_ + b]) * kKeys;
  }
  __device__ __forceinline__ bool has_new_key() const { return (blocks_ - 1) / kTokenWarps % splits_ == split_; }

  // One warp per head: the queries of the group, then the new key, then the new value.
  __device__ __forceinline__ void turn_heads() {
    const int row = warp();
    if (row >= group_ + 2) return;
    const bool is_query = row < group_, is_value = row == group_ + 1;
    const int head = is_query ? kv_head_ * group_ + row : call_.heads + (is_value ? call_.kv_heads : 0) + kv_head_;
    const T* from = static_cast<const T*>(call_.qkv) + static_cast<int64_t>(head) * kHeadSize + lane() * kPairs;
    using Run = Pack<T, kPairs>;
    Run low = load_run(from), high = load_run(from + kHeadSize / 2);
    const T* norm = is_query ? memory_.q_norm : memory_.k_norm;
    if (layer_.q_norm != nullptr && !is_value) {
      float squares = 0;
#pragma unroll
      for (int j = 0; j < kPairs; ++j)
        squares += to_float(low.at[j]) * to_float(low.at[j]) + to_float(high.at[j]) * to_float(high.at[j]);
      squares = reduce_warp<Sum>(squares);
      const float inverse = 1.0f / sqrtf(squares / kHeadSize + call_.eps);
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        const float w = to_float(norm[lane() * kPairs + j]), v = to_float(norm[kHeadSize / 2 + lane() * kPairs + j]);
        low.at[j] = from_float<T>(to_float(low.at[j]) * inverse * (w + call_.norm_offset));
        high.at[j] = from_float<T>(to_float(high.at[j]) * inverse * (v + call_.norm_offset));
      }
    }
    if (!is_value) {
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        const float2 turn = memory_.angles[layer_.rope][lane() * kPairs + j];
        const float x = to_float(low.at[j]), y = to_float(high.at[j]);
        low.at[j] = from_float<T>(x * turn.x - y * turn.y);
        high.at[j] = from_float<T>(y * turn.x + x * turn.y);
      }
    }
    T* here = is_query ? memory_.queries[row] : is_value ? memory_.value : memory_.key;
    *reinterpret_cast<Run*>(here + lane() * kPairs) = low;
    *reinterpret_cast<Run*>(here + kHeadSize / 2 + lane() * kPairs) = high;
    if (is_query || slice_ != 0 || !has_new_key() || slot_ < 0 || slot_ >= call_.cache_slots) return;
    T* cache = (is_value ? cached_values_ : keys_) + slot_ * stride();
    *reinterpret_cast<Run*>(cache + lane() * kPairs) = low;
    *reinterpret_cast<Run*>(cache + kHeadSize / 2 + lane() * kPairs) = high;
  }

  static __device__ __forceinline__ Pack<T, kPairs> load_run(const T* from) {
    Pack<T, kPairs> run;
    if constexpr (kPairs == 1) {
      const unsigned short raw = __ldcg(reinterpret_cast<const unsigned short*>(from));
      memcpy(&run, &raw, sizeof run);
    } else if constexpr (kPairs == 2) {
      const unsigned raw = __ldcg(reinterpret_cast<const unsigned*>(from));
      memcpy(&run, &raw, sizeof run);
    } else {
      const uint2 raw = __ldcg(reinterpret_cast<const uint2*>(from));
      memcpy(&run, &raw, sizeof run);
    }
    return run;
  }

  // Which of 16 keys a thread takes values of.
  static __device__ __forceinline__ int value_key(int j) { return 2 * (lane() % 4) + j % 2 + 8 * (j / 2); }

  // The new key and value are read from shared memory; only one block writes them to the cache.
  __device__ __forceinline__ uint4 load_key(int64_t row, int key, int at) const {
    if (key == length_ - 1) return *reinterpret_cast<const uint4*>(memory_.key + at);
    return *reinterpret_cast<const uint4*>(keys_ + row * stride() + at);
  }
  __device__ __forceinline__ uint4 load_value(int64_t row, int key, int at) const {
    if (key == length_ - 1) return *reinterpret_cast<const uint4*>(memory_.value + at);
    // Memory after the last key was never written: it may contain NaN, and zero times NaN is NaN.
    if (key >= length_) return {0, 0, 0, 0};
    return *reinterpret_cast<const uint4*>(cached_values_ + row * stride() + at);
  }

  // A warp takes 16 keys at a time, for all heads of the group.
  __device__ __forceinline__ void attend() {
    const int g = lane() / 4, t = lane() % 4;
    const T* query = memory_.queries[min(g, group_ - 1)] + 8 * t;
    float mean[kTiles][4] = {};          // [elements 2 i and 2 i + 1 of run g][heads 2 t and 2 t + 1]
    float largest = -INFINITY, sum = 0;  // of head g
    for (int b = first_of_warp(); b < blocks_; b += splits_ * kTokenWarps) {
      const int64_t row = b == first_of_warp() ? first_row_ : block_row(b);
      const int first = (first_block_ + b) * kKeys;
      uint4 v[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        v[j] = load_value(row + value_key(j), first + value_key(j), slice_ * kColumns + 8 * g);
      float score[2][4] = {};
#pragma unroll
      for (int c = 0; c < kScoreRuns; c += kRunsAtOnce) {
        uint4 k[2][kRunsAtOnce];
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
          for (int i = 0; i < kRunsAtOnce; ++i)
            k[h][i] = load_key(row + 8 * h + g, first + 8 * h + g, 32 * (c + i) + 8 * t);
#pragma unroll
        for (int i = 0; i < kRunsAtOnce; ++i) {
          const uint4 q = *reinterpret_cast<const uint4*>(query + 32 * (c + i));
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            multiply_tile<T>(score[h], q.x, 0, q.y, 0, k[h][i].x, k[h][i].y);
            multiply_tile<T>(score[h], q.z, 0, q.w, 0, k[h][i].z, k[h][i].w);
          }
        }
      }
      float new_largest = largest;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& value = score[i / 2][i % 2];
        const int key = first + 8 * (i / 2) + 2 * t + i % 2;
        value = key < first_key_ || key >= length_ ? -INFINITY : value * call_.score_scale * kLog2E;
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
      const uint32_t early = pack_two<T>(score[0][0], score[0][1]), late = pack_two<T>(score[1][0], score[1][1]);
      const float shrinks[2] = {__shfl_sync(kAllLanes, shrink, 8 * t), __shfl_sync(kAllLanes, shrink, 8 * t + 4)};
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
#pragma unroll
        for (int c = 0; c < 4; ++c) mean[i][c] *= shrinks[c % 2];
      const uint32_t words[4][4] = {{v[0].x, v[0].y, v[0].z, v[0].w},
                                    {v[1].x, v[1].y, v[1].z, v[1].w},
                                    {v[2].x, v[2].y, v[2].z, v[2].w},
                                    {v[3].x, v[3].y, v[3].z, v[3].w}};
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
        multiply_tile<T>(mean[i], low_halves(words[0][i], words[1][i]), high_halves(words[0][i], words[1][i]),
                         low_halves(words[2][i], words[3][i]), high_halves(words[2][i], words[3][i]), early, late);
    }
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    if (t == 0) {
      memory_.largest[warp()][g] = largest;
      memory_.sums[warp()][g] = sum;
    }
    if (t < head_pairs_)
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
        reinterpret_cast<float4*>(values_)[(warp() * kTiles + i) * 8 * head_pairs_ + g * head_pairs_ + t] = {
            mean[i][0], mean[i][1], mean[i][2], mean[i][3]};
  }

  // The weight of each warp's values relative to the others.
  __device__ __forceinline__ void weigh_warps() {
    if (threadIdx.x >= kTokenWarps * kMostGroup) return;
    const int of = static_cast<int>(threadIdx.x) / kMostGroup, head = static_cast<int>(threadIdx.x) % kMostGroup;
    float largest = -INFINITY;
#pragma unroll
    for (int w = 0; w < kTokenWarps; ++w) largest = fmaxf(largest, memory_.largest[w][head]);
    const float safe = largest == -INFINITY ? 0.0f : largest;
    memory_.shares[of][head] = exp2f(memory_.largest[of][head] - safe);
    if (of != 0) return;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kTokenWarps; ++w) sum += memory_.sums[w][head] * exp2f(memory_.largest[w][head] - safe);
    if constexpr (kSinks)
      if (splits_ == 1) sum += exp2f(sink_ - safe);  // this is thread `head`
    memory_.all_largest[head] = largest;
    memory_.all_sums[head] = sum;
  }

  // Layout of the values as written by attend(): [tile][run][pair of heads][element of two][head of two].
  __device__ __forceinline__ int values() const { return kTiles * 8 * head_pairs_ * 4; }
  __device__ __forceinline__ int head_of(int at) const { return 2 * (at / 4 % head_pairs_) + at % 2; }
  __device__ __forceinline__ int element_of(int at) const {
    const int run = at / (4 * head_pairs_) % 8, tile = at / (32 * head_pairs_);
    return slice_ * kColumns + run * (kColumns / 8) + 2 * tile + at / 2 % 2;
  }

  __device__ __forceinline__ float of_block(int at) const {
    float value = 0;
#pragma unroll
    for (int w = 0; w < kTokenWarps; ++w) value += values_[w * values() + at] * memory_.shares[w][head_of(at)];
    return value;
  }

  template <class Value>
  __device__ __forceinline__ void store(const Value& value, const float* sums) const {
    for (int at = static_cast<int>(threadIdx.x); at < values(); at += kTokenThreads) {
      const int head = head_of(at);
      if (head >= group_) continue;
      T* out = static_cast<T*>(call_.attended) + static_cast<int64_t>(kv_head_ * group_ + head) * kHeadSize;
      out[element_of(at)] = from_float<T>(sums[head] > 0 ? value(at) / sums[head] : 0.0f);
    }
  }

  // Blocks that share a head store partial results in memory; the last one combines them.
  __device__ __forceinline__ void share_with_others() {
    const int share = kv_head_ * kSlices + slice_;
    auto values_of = [&](int split) {
      return call_.partial_values + static_cast<int64_t>(share * room() + split) * values();
    };
    auto state_of = [&](int split, int head) {
      return call_.partial_states + ((share * room() + split) * kMostGroup + head) * 2;
    };
    for (int at = static_cast<int>(threadIdx.x); at < values(); at += kTokenThreads)
      __stcg(values_of(split_) + at, of_block(at));
    if (threadIdx.x < static_cast<unsigned>(group_)) {
      __stcg(state_of(split_, static_cast<int>(threadIdx.x)), memory_.all_largest[threadIdx.x]);
      __stcg(state_of(split_, static_cast<int>(threadIdx.x)) + 1, memory_.all_sums[threadIdx.x]);
    }
    __threadfence();
    meet();
    if (threadIdx.x == 0) {
      unsigned* arrived = call_.arrivals + 1 + share;
      memory_.came_last = atomicAdd(arrived, 1) + 1 == static_cast<unsigned>(splits_);
      if (memory_.came_last) *arrived = 0;
      __threadfence();
    }
    meet();
    if (!memory_.came_last) return;
    // Weights of the splits; there may be more splits than warps.
    float* shares = values_;  // no longer needed
    if (threadIdx.x < static_cast<unsigned>(group_)) {
      const int head = static_cast<int>(threadIdx.x);
      float largest = -INFINITY, sum = 0;
      for (int i = 0; i < splits_; ++i) largest = fmaxf(largest, __ldcg(state_of(i, head)));
      const float safe = largest == -INFINITY ? 0.0f : largest;
      for (int i = 0; i < splits_; ++i) {
        const float share = exp2f(__ldcg(state_of(i, head)) - safe);
        shares[i * kMostGroup + head] = share;
        sum += share * __ldcg(state_of(i, head) + 1);
      }
      if constexpr (kSinks) sum += exp2f(sink_ - safe);
      memory_.all_sums[head] = sum;
    }
    meet();
    store(
        [&](int at) {
          float value = 0;
          for (int i = 0; i < splits_; ++i) value += __ldcg(values_of(i) + at) * shares[i * kMostGroup + head_of(at)];
          return value;
        },
        memory_.all_sums);
  }

  const TokenCall& call_;
  const TokenLayer& layer_;
  TokenAttentionMemory& memory_;
  float* values_;
  const float* sinks_;  // of all heads
  float sink_ = 0;      // of the head whose number is the thread's, times log2 e
  const int length_;
  const int64_t slot_;
  const int group_, head_pairs_;
  const int slice_, kv_head_, split_;
  int first_key_, first_block_, blocks_, splits_;
  int64_t first_row_;  // of the warp's first keys
  T* keys_;
  T* cached_values_;
};

}  // namespace fk::cuda
