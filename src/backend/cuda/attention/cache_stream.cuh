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

// Every `stride`-th block of a sequence from `first` on.
struct CacheRun {
  const int32_t* table = nullptr;  // of the sequence
  int first = 0, stride = 0;
  int steps = 0;     // blocks
  int last_key = 0;  // of the sequence, one past the end
};

template <class T, int kHeadSize>
class CacheStream {
 public:
  static constexpr int kRows = kTileKeys;

  // kHeadSize elements of a head, from `first_element` on.
  __device__ __forceinline__ CacheStream(const AttentionCall& call, int kv_head, int first_element = 0)
      : k_pitch_(static_cast<int>(call.k_strides.token)),
        v_pitch_(static_cast<int>(call.v_strides.token)),
        k_from_(static_cast<const T*>(call.k) + kv_head * call.k_strides.head + lane() / 4 * k_pitch_ + lane() % 4 * 8 +
                first_element),
        v_from_(static_cast<const T*>(call.v) + kv_head * call.v_strides.head + lane() % 4 * 2 * v_pitch_ +
                lane() / 4 * 8 + first_element) {}

  // Sets the run that comes after the current one, or the first run if there is no current one.
  __device__ __forceinline__ void follow_with(const CacheRun& next) {
    next_ = next;
    next_ids_ = entries(next_, 0);
  }
  __device__ __forceinline__ void go_on() {
    run_ = next_;
    ids_ = next_ids_;
  }

  __device__ __forceinline__ int steps() const { return run_.steps; }
  __device__ __forceinline__ int first_key(int step) const { return (run_.first + step * run_.stride) * kRows; }

  __device__ __forceinline__ const uint4& key(int h, int c) const { return k_[h][c]; }
  __device__ __forceinline__ const uint4& value(int j, int c) const { return v_[j][c]; }

  // Loads the keys of a step of the current run; a step after its last one means the first step of the next run. The
  // values of a step are loaded after its keys.
  __device__ __forceinline__ void load_keys(int step) {
    if (step < run_.steps) {
      // Lane i has the address of the i-th block; after 32 blocks all lanes read the table again.
      if (step > 0 && step % 32 == 0) ids_ = entries(run_, step);
      row_ = __shfl_sync(kAllLanes, ids_, step % 32) * kRows;
    } else if (next_.steps > 0) {
      row_ = __shfl_sync(kAllLanes, next_ids_, 0) * kRows;
    } else {
      return;
    }
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int c = 0; c < kHeadSize / 32; ++c)
        k_[h][c] = load_once(k_from_ + static_cast<int64_t>(row_ + 8 * h) * k_pitch_ + 32 * c);
  }

  __device__ __forceinline__ void load_values(int step) {
    const bool present = step < run_.steps;
    if (!present && next_.steps == 0) return;
    const int first = present ? first_key(step) : next_.first * kRows, last = present ? run_.last_key : next_.last_key;
    const bool whole = first + kRows <= last;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = j % 2 + 8 * (j / 2);
      const bool there = whole || first + lane() % 4 * 2 + row < last;
#pragma unroll
      for (int c = 0; c < kHeadSize / 64; ++c)
        v_[j][c] =
            there ? load_once(v_from_ + static_cast<int64_t>(row_ + row) * v_pitch_ + 64 * c) : uint4{0, 0, 0, 0};
    }
  }

 private:
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }

  static __device__ __forceinline__ int32_t entries(const CacheRun& run, int step) {
    return step + lane() < run.steps ? run.table[run.first + (step + lane()) * run.stride] : 0;
  }

  // Bypasses L1, since the data is not reused.
  static __device__ __forceinline__ uint4 load_once(const T* address) {
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address));
    return v;
  }

  int k_pitch_, v_pitch_;
  const T *k_from_, *v_from_;
  CacheRun run_, next_;
  int32_t ids_ = 0, next_ids_ = 0;
  int row_ = 0;  // of the block whose keys were loaded last, in tokens; no device has memory for 2^31 of them
  uint4 k_[2][kHeadSize / 32], v_[4][kHeadSize / 64];
};

}  // namespace fk::cuda
