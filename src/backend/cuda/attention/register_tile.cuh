// RegisterTile: one warp attends with the query heads that share a kv head, with 16 keys at a time that it holds in
// registers (cache_stream.cuh), on tensor cores.
//
// In the layout of mma.m16n8k16 a thread holds pairs of elements that are not adjacent. Any order of the columns is
// allowed if both operands agree, so each thread loads runs of 16 bytes. For scores the keys are the 8-column operand
// and the queries the 16 rows, of which 8 to 15 stay empty. For the weighted values, pairs of keys are interleaved
// element by element, two elements are two of the 16 rows, and the heads are the 8 columns.
#pragma once

#include "backend/cuda/attention/cache_stream.cuh"
#include "backend/cuda/attention/partial_softmax.cuh"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/tile.cuh"

namespace fk::cuda {

// kSlice: elements of a head that the warp has.
template <class T, int kSlice>
class RegisterTile {
 public:
  static_assert(kTileKeys == 16, "a block of the cache is one product's worth of keys");

  // Row g of the queries is head g of the group.
  __device__ __forceinline__ void start(const AttentionCall& call, int sequence, int kv_head, int first_element = 0) {
    const int group = call.heads / call.kv_heads;
    const T* row = static_cast<const T*>(call.q) + sequence * call.q_strides.token +
                   (kv_head * group + min(g(), group - 1)) * call.q_strides.head + first_element + 8 * t();
#pragma unroll
    for (int c = 0; c < kScoreRuns; ++c) q_[c] = *reinterpret_cast<const uint4*>(row + 32 * c);
    largest_ = -INFINITY;
    sum_ = 0;
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
#pragma unroll
      for (int c = 0; c < 4; ++c) mean_[i][c] = 0;
  }

  // One step of the stream, whose next blocks are loaded on the way. add_scores(score) completes the scores where
  // several warps have parts of a head.
  template <class AddScores>
  __device__ __forceinline__ void attend(const AttentionCall& call, CacheStream<T, kSlice>& cache, int step,
                                         VisibleKeys keys, AddScores add_scores) {
    constexpr float kLog2E = 1.4426950408889634f;
    const int first_key = cache.first_key(step);
    float score[2][4] = {};
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int c = 0; c < kScoreRuns; ++c) {
        const uint4 k = cache.key(h, c);
        multiply_tile<T>(score[h], q_[c].x, 0, q_[c].y, 0, k.x, k.y);
        multiply_tile<T>(score[h], q_[c].z, 0, q_[c].w, 0, k.z, k.w);
      }
    cache.load_keys(step + 1);
    add_scores(score);
    const float before = call.soft_cap > 0 ? call.scale : call.scale * kLog2E;
    float new_largest = largest_;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& value = score[i / 2][i % 2];
      const int j = first_key + 8 * (i / 2) + 2 * t() + i % 2;
      value *= before;
      if (call.soft_cap > 0) value = capped(value, call.soft_cap) * kLog2E;
      if (j < keys.first || j >= keys.last) value = -INFINITY;
      new_largest = fmaxf(new_largest, value);
    }
    new_largest = fmaxf(new_largest, __shfl_xor_sync(kAllLanes, new_largest, 1));
    new_largest = fmaxf(new_largest, __shfl_xor_sync(kAllLanes, new_largest, 2));
    const float safe = new_largest == -INFINITY ? 0.0f : new_largest;
    const float shrink = exp2f(largest_ - safe);
    largest_ = new_largest;
    sum_ *= shrink;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& value = score[i / 2][i % 2];
      value = exp2f(value - safe);
      sum_ += value;
    }
    const uint32_t weight[2] = {pack_two<T>(score[0][0], score[0][1]), pack_two<T>(score[1][0], score[1][1])};
    if (__any_sync(kAllLanes, shrink != 1)) {
      const float shrinks[2] = {__shfl_sync(kAllLanes, shrink, 8 * t()), __shfl_sync(kAllLanes, shrink, 8 * t() + 4)};
#pragma unroll
      for (int i = 0; i < kPairs; ++i)
#pragma unroll
        for (int c = 0; c < 4; ++c) mean_[i][c] *= shrinks[c % 2];
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
        multiply_tile<T>(mean_[4 * c + w], low_halves(words[0][w], words[1][w]), high_halves(words[0][w], words[1][w]),
                         low_halves(words[2][w], words[3][w]), high_halves(words[2][w], words[3][w]), weight[0],
                         weight[1]);
    }
    cache.load_values(step + 1);
  }

  // Saves to shared memory, after the last step: the weighted values as [head][pitch], from the warp's first element
  // on, and the sums of each head. Where several warps have parts of a head, only one of them saves its sums
  // (with_states).
  __device__ __forceinline__ void save(float* values, int pitch, Running* states, int group, bool with_states) {
    sum_ += __shfl_xor_sync(kAllLanes, sum_, 1);
    sum_ += __shfl_xor_sync(kAllLanes, sum_, 2);
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (2 * t() + c >= group) continue;
#pragma unroll
      for (int i = 0; i < kPairs; ++i)
        *reinterpret_cast<float2*>(values + (2 * t() + c) * pitch + i / 4 * 64 + 8 * g() + i % 4 * 2) = {
            mean_[i][c], mean_[i][2 + c]};
    }
    if (with_states && g() < group && t() == 0) states[g()] = {largest_, sum_};
  }

 private:
  static constexpr int kScoreRuns = kSlice / 32;  // runs of 16 bytes a thread takes of a key
  static constexpr int kValueRuns = kSlice / 64;  // and of each of its four values
  static constexpr int kPairs = 4 * kValueRuns;   // of elements in these

  static __device__ __forceinline__ int g() { return static_cast<int>(threadIdx.x) % 32 / 4; }
  static __device__ __forceinline__ int t() { return static_cast<int>(threadIdx.x) % 4; }

  uint4 q_[kScoreRuns];
  float mean_[kPairs][4];  // two elements each, both for heads 2t and 2t + 1
  float largest_, sum_;    // of head g; each lane sums its own keys
};

}  // namespace fk::cuda
