// PageTile: one warp attends with the query heads that share a kv head, 16 keys in shared memory at a time, on tensor
// cores.
//
// As in decode_split.cu, thread (g, t) = (lane / 4, lane % 4) holds runs of 16 bytes of queries, keys and values, in an
// order of the columns that both operands of a product share. Scores: row g is query head g, columns are keys. Weighted
// values: two elements are two of the 16 rows, and the heads are the 8 columns.
#pragma once

#include "backend/cuda/attention/keys.cuh"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/device/tile.cuh"

namespace fk::cuda {

// Bytes between the rows of two tokens beside those of the heads: eight lanes then load 128 bytes from all 32 banks.
inline constexpr int kKeyPad = 64, kValuePad = 16;

// Of a partial result: for each head the weighted values, the largest score and the sum of weights.
__host__ __device__ constexpr int partial_floats(int head_size, int group) { return group * (head_size + 2) + 2; }

#if __CUDA_ARCH__ >= 900

template <class T, int kHeadSize>
class PageTile {
 public:
  __device__ __forceinline__ PageTile(const AttentionCall& call, int sequence, int kv_head)
      : call_(call), group_(call.heads / call.kv_heads) {
    const T* row = static_cast<const T*>(call.q) + sequence * call.q_strides.token +
                   (kv_head * group_ + min(g(), group_ - 1)) * call.q_strides.head + 8 * t();
#pragma unroll
    for (int c = 0; c < kScoreRuns; ++c) q_[c] = *reinterpret_cast<const uint4*>(row + 32 * c);
    clear();
  }

  __device__ __forceinline__ void clear() {
    largest_ = -INFINITY;
    sum_ = 0;
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
#pragma unroll
      for (int c = 0; c < 4; ++c) mean_[i][c] = 0;
  }

  // The rows of 16 tokens, at this kv head; the first is key `first_key` of the sequence. Rows after the last visible
  // key may hold anything.
  __device__ __forceinline__ void attend(const unsigned char* keys, int key_pitch, const unsigned char* values,
                                         int value_pitch, int first_key, VisibleKeys visible) {
    float score[2][4] = {};
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int c = 0; c < kScoreRuns; ++c) {
        const uint4 k = *reinterpret_cast<const uint4*>(keys + (g() + 8 * h) * key_pitch + 64 * c + 16 * t());
        multiply_tile<T>(score[h], q_[c].x, 0, q_[c].y, 0, k.x, k.y);
        multiply_tile<T>(score[h], q_[c].z, 0, q_[c].w, 0, k.z, k.w);
      }
    const float before = call_.soft_cap > 0 ? call_.scale : call_.scale * kLog2OfE;
    float new_largest = largest_;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& value = score[i / 2][i % 2];
      const int j = first_key + 8 * (i / 2) + 2 * t() + i % 2;
      value *= before;
      if (call_.soft_cap > 0) value = capped(value, call_.soft_cap) * kLog2OfE;
      if (j < visible.first || j >= visible.last) value = -INFINITY;
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
    if (__any_sync(kAllLanes, shrink != 1)) scale_means(shrink);

    const bool whole = first_key + kTileKeys <= visible.last;
#pragma unroll
    for (int c = 0; c < kValueRuns; ++c) {
      uint32_t words[4][4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int row = 2 * t() + j % 2 + 8 * (j / 2);
        uint4 v = *reinterpret_cast<const uint4*>(values + row * value_pitch + 128 * c + 16 * g());
        // A weight of zero times NaN is NaN.
        if (!whole && first_key + row >= visible.last) v = uint4{0, 0, 0, 0};
        words[j][0] = v.x;
        words[j][1] = v.y;
        words[j][2] = v.z;
        words[j][3] = v.w;
      }
#pragma unroll
      for (int w = 0; w < 4; ++w)
        multiply_tile<T>(mean_[4 * c + w], low_halves(words[0][w], words[1][w]), high_halves(words[0][w], words[1][w]),
                         low_halves(words[2][w], words[3][w]), high_halves(words[2][w], words[3][w]), weight[0],
                         weight[1]);
    }
  }

  // After the last tile: until now each lane has summed its own keys.
  __device__ __forceinline__ void finish_sums() {
    sum_ += __shfl_xor_sync(kAllLanes, sum_, 1);
    sum_ += __shfl_xor_sync(kAllLanes, sum_, 2);
  }

  // A partial result: [group][kHeadSize] weighted values, then [group][2] largest and sum.
  __device__ __forceinline__ void save(float* to, int group) const {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (2 * t() + c >= group) continue;
#pragma unroll
      for (int i = 0; i < kPairs; ++i)
        *reinterpret_cast<float2*>(to + (2 * t() + c) * kHeadSize + element(i)) = {mean_[i][c], mean_[i][2 + c]};
    }
    if (g() < group && t() == 0) *reinterpret_cast<float2*>(to + group * kHeadSize + 2 * g()) = {largest_, sum_};
  }

  // Adds a partial result that another warp of the block has saved in shared memory.
  __device__ __forceinline__ void add(const float* from, int group) {
    const float2 other = *reinterpret_cast<const float2*>(from + group * kHeadSize + 2 * min(g(), group - 1));
    const float before = largest_;
    join(largest_, sum_, other.x, other.y);
    const float safe = largest_ == -INFINITY ? 0.0f : largest_;
    scale_means(exp2f(before - safe));
    const float theirs = exp2f(other.x - safe);
    const float scales[2] = {of_head(theirs, 2 * t()), of_head(theirs, 2 * t() + 1)};
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (2 * t() + c >= group) continue;
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const float2 v = *reinterpret_cast<const float2*>(from + (2 * t() + c) * kHeadSize + element(i));
        mean_[i][c] += v.x * scales[c];
        mean_[i][2 + c] += v.y * scales[c];
      }
    }
  }

  // Becomes the combination of `parts` partial results: its own, which is number `own`, and those that other
  // multiprocessors have saved at place(i), past the L1. The order does not depend on whose the own one is.
  template <class Place>
  __device__ __forceinline__ void combine(int parts, int own, Place place, int group) {
    const int state_at = group * kHeadSize + 2 * min(g(), group - 1);
    auto state = [&](int p) {
      return p == own ? float2{largest_, sum_} : __ldcg(reinterpret_cast<const float2*>(place(p) + state_at));
    };
    float largest = -INFINITY, sum = 0;
    for (int p = t(); p < parts; p += 4) {
      const float2 other = state(p);
      join(largest, sum, other.x, other.y);
    }
#pragma unroll
    for (int lanes = 1; lanes <= 2; lanes *= 2) {
      const float other = __shfl_xor_sync(kAllLanes, largest, lanes);
      const float other_sum = __shfl_xor_sync(kAllLanes, sum, lanes);
      join(largest, sum, other, other_sum);
    }
    const float safe = largest == -INFINITY ? 0.0f : largest;
    float total[kPairs][4] = {};
    for (int p = 0; p < parts; ++p) {
      const float scale = exp2f(state(p).x - safe);
      const float scales[2] = {of_head(scale, 2 * t()), of_head(scale, 2 * t() + 1)};
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        if (2 * t() + c >= group) continue;
        const float* from = place(p) + (2 * t() + c) * kHeadSize;
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
          const float2 v = p == own ? float2{mean_[i][c], mean_[i][2 + c]}
                                    : __ldcg(reinterpret_cast<const float2*>(from + element(i)));
          total[i][c] += v.x * scales[c];
          total[i][2 + c] += v.y * scales[c];
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
#pragma unroll
      for (int c = 0; c < 4; ++c) mean_[i][c] = total[i][c];
    largest_ = largest;
    sum_ = sum;
  }

  __device__ __forceinline__ void store(int sequence, int kv_head) const {
    const int head = kv_head * group_ + min(g(), group_ - 1);
    const float total = sum_ + sink_weight(call_, head, largest_);
    const float factor = total == 0 ? 0.0f : 1 / total;
    const float factors[2] = {of_head(factor, 2 * t()), of_head(factor, 2 * t() + 1)};
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (2 * t() + c >= group_) continue;
      T* out = static_cast<T*>(call_.out) + sequence * call_.out_strides.token +
               (kv_head * group_ + 2 * t() + c) * call_.out_strides.head;
#pragma unroll
      for (int r = 0; r < kValueRuns; ++r) {
        uint32_t words[4];
#pragma unroll
        for (int w = 0; w < 4; ++w)
          words[w] = pack_two<T>(mean_[4 * r + w][c] * factors[c], mean_[4 * r + w][2 + c] * factors[c]);
        *reinterpret_cast<uint4*>(out + 64 * r + 8 * g()) = uint4{words[0], words[1], words[2], words[3]};
      }
    }
  }

 private:
  static constexpr int kScoreRuns = kHeadSize / 32;  // runs of 16 bytes of a key
  static constexpr int kValueRuns = kHeadSize / 64;  // and of each of four values
  static constexpr int kPairs = 4 * kValueRuns;      // of elements in these
  static constexpr float kLog2OfE = 1.4426950408889634f;

  static __device__ __forceinline__ int g() { return static_cast<int>(threadIdx.x) % 32 / 4; }
  static __device__ __forceinline__ int t() { return static_cast<int>(threadIdx.x) % 4; }
  // The first element of pair i.
  static __device__ __forceinline__ int element(int i) { return i / 4 * 64 + 8 * g() + i % 4 * 2; }
  // The lanes of row g have the number of head g.
  static __device__ __forceinline__ float of_head(float number, int head) {
    return __shfl_sync(kAllLanes, number, 4 * head);
  }

  // Two sums of weights, each relative to its largest score, become one. The same whichever comes first.
  static __device__ __forceinline__ void join(float& largest, float& sum, float other, float other_sum) {
    const float both = fmaxf(largest, other), safe = both == -INFINITY ? 0.0f : both;
    sum = __fadd_rn(__fmul_rn(sum, exp2f(largest - safe)), __fmul_rn(other_sum, exp2f(other - safe)));
    largest = both;
  }

  __device__ __forceinline__ void scale_means(float scale) {
    const float scales[2] = {of_head(scale, 2 * t()), of_head(scale, 2 * t() + 1)};
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
#pragma unroll
      for (int c = 0; c < 4; ++c) mean_[i][c] *= scales[c % 2];
  }

  const AttentionCall& call_;
  const int group_;
  uint4 q_[kScoreRuns];
  float mean_[kPairs][4];  // two elements each, both for heads 2t and 2t + 1
  float largest_, sum_;    // of head g
};

#endif

}  // namespace fk::cuda
