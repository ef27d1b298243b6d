// Loads keys and values of one head from the cache for one warp, one block ahead of their use.
//
// A warp takes blocks of the cache, 16 keys and their values, one after the other. Thread (g, t) = (lane / 4, lane % 4)
// holds of each
//  - keys: of keys g and g + 8 (h = 0, 1) the 16 bytes from element 32 c + 8 t on;
//  - values: of keys 2t, 2t + 1, 2t + 8, 2t + 9 (j = 0 to 3) the 16 bytes from element 64 c + 8 g on.
// Keys of the next block are loaded as soon as those of one are used, and so are values. Memory after the last key was
// never written and may contain NaN, and zero times NaN is NaN: values there are replaced by zeros.
#pragma once

#include "backend/cuda/attention/keys.cuh"
#include "backend/cuda/device/reduce.cuh"

namespace fk::cuda {

template <class T, int kHeadSize>
class CacheStream {
 public:
  static constexpr int kRows = kTileKeys;

  // Every `stride`-th block with visible keys, from `first` on. kHeadSize elements of a head, from `first_element` on.
  __device__ __forceinline__ CacheStream(const AttentionCall& call, int sequence, int kv_head, VisibleKeys keys,
                                         int first, int stride, int first_element = 0)
      : table_(call.block_table + sequence * call.table_width),
        first_(first),
        stride_(stride),
        last_key_(keys.last),
        steps_(max(0, ((keys.last + kRows - 1) / kRows - first + stride - 1) / stride)),
        k_pitch_(call.k_strides.token),
        v_pitch_(call.v_strides.token),
        k_from_(static_cast<const T*>(call.k) + kv_head * call.k_strides.head + lane() / 4 * k_pitch_ + lane() % 4 * 8 +
                first_element),
        v_from_(static_cast<const T*>(call.v) + kv_head * call.v_strides.head + lane() % 4 * 2 * v_pitch_ +
                lane() / 4 * 8 + first_element) {
    load_keys(0);
    load_values(0);
  }

  __device__ __forceinline__ int steps() const { return steps_; }
  __device__ __forceinline__ int first_key(int step) const { return (first_ + step * stride_) * kRows; }

  __device__ __forceinline__ const uint4& key(int h, int c) const { return k_[h][c]; }
  __device__ __forceinline__ const uint4& value(int j, int c) const { return v_[j][c]; }

  // After the last step there is nothing to load. Values come after the keys of their step.
  __device__ __forceinline__ void load_keys(int step) {
    if (step >= steps_) return;
    // Lane i has the address of the i-th block; after 32 blocks all lanes read the table again.
    if (step % 32 == 0 && step + lane() < steps_) ids_ = table_[first_ + (step + lane()) * stride_];
    row_ = static_cast<int64_t>(__shfl_sync(kAllLanes, ids_, step % 32)) * kRows;
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int c = 0; c < kHeadSize / 32; ++c) k_[h][c] = load_once(k_from_ + (row_ + 8 * h) * k_pitch_ + 32 * c);
  }

  __device__ __forceinline__ void load_values(int step) {
    if (step >= steps_) return;
    const bool whole = first_key(step) + kRows <= last_key_;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = j % 2 + 8 * (j / 2);
      const bool there = whole || first_key(step) + lane() % 4 * 2 + row < last_key_;
#pragma unroll
      for (int c = 0; c < kHeadSize / 64; ++c)
        v_[j][c] = there ? load_once(v_from_ + (row_ + row) * v_pitch_ + 64 * c) : uint4{0, 0, 0, 0};
    }
  }

 private:
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }

  // Bypasses L1, since the data is not reused.
  static __device__ __forceinline__ uint4 load_once(const T* address) {
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address));
    return v;
  }

  const int32_t* table_;
  int first_, stride_, last_key_, steps_;
  int64_t k_pitch_, v_pitch_;
  const T *k_from_, *v_from_;
  int32_t ids_ = 0;
  int64_t row_ = 0;  // of the block whose keys were loaded last, counted in tokens
  uint4 k_[2][kHeadSize / 32], v_[4][kHeadSize / 64];
};

}  // namespace fk::cuda
