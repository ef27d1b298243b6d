// PageWork: which units of the list of all pages (decode_shares.cu) this block computes, as segments of one sequence.
#pragma once

#include "backend/cuda/attention/keys.cuh"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/reduce.cuh"

namespace fk::cuda {

// Consecutive units of one sequence.
struct Segment {
  int units = 0;  // none: the end
  int unit = 0;   // of the list, the first
  int sequence = 0;
  int first_page = 0;  // of the first unit
  int last_page = 0;   // of the sequence
  VisibleKeys keys{};
  int sequence_begin = 0, sequence_end = 0;  // units of the list that belong to this sequence
  bool whole = false;                        // the segment has all of these
};

#if __CUDA_ARCH__ >= 900

struct PageWork {
  const AttentionCall& call;
  const int pages_per_unit;
  const int* begins;  // [sequences + 1] units before a sequence
  int total, blocks, begin, end;

  // All threads of the block take part. `sums` is in shared memory.
  __device__ PageWork(const AttentionCall& c, int unit_pages, int* sums)
      : call(c), pages_per_unit(unit_pages), begins(sums) {
    for (int s = threadIdx.x; s < call.sequences; s += blockDim.x) sums[s + 1] = units_of(s);
    __syncthreads();
    if (threadIdx.x < 32) {
      int before = 0;
      if (threadIdx.x == 0) sums[0] = 0;
      for (int first = 0; first < call.sequences; first += 32) {
        const int s = first + static_cast<int>(threadIdx.x);
        int sum = s < call.sequences ? sums[s + 1] : 0;
#pragma unroll
        for (int lanes = 1; lanes < 32; lanes *= 2) {
          const int other = __shfl_up_sync(kAllLanes, sum, lanes);
          if (static_cast<int>(threadIdx.x) >= lanes) sum += other;
        }
        sum += before;
        if (s < call.sequences) sums[s + 1] = sum;
        before = __shfl_sync(kAllLanes, sum, 31);
      }
    }
    __syncthreads();
    total = sums[call.sequences];
    blocks = min(static_cast<int>(gridDim.x), total);
    const bool works = static_cast<int>(blockIdx.x) < blocks;
    begin = works ? first_unit_of(blockIdx.x) : 0;
    end = works ? first_unit_of(blockIdx.x + 1) : 0;
  }

  __device__ __forceinline__ int first_unit_of(int block) const {
    return static_cast<int>(static_cast<int64_t>(total) * block / blocks);
  }
  // The block that computes a unit.
  __device__ __forceinline__ int block_of(int unit) const {
    return static_cast<int>((static_cast<int64_t>(unit + 1) * blocks + total - 1) / total) - 1;
  }

  __device__ __forceinline__ Segment first_segment() const { return segment_at(begin); }
  __device__ __forceinline__ Segment after(const Segment& s) const { return segment_at(s.unit + s.units); }

 private:
  __device__ __forceinline__ VisibleKeys keys_of(int s) const {
    const int length = call.seq_lens[s];
    return visible_keys(call, length - 1, length);
  }
  __device__ __forceinline__ int units_of(int s) const {
    const VisibleKeys keys = keys_of(s);
    if (keys.last <= keys.first) return 0;
    const int pages = (keys.last + kTileKeys - 1) / kTileKeys - keys.first / kTileKeys;
    return (pages + pages_per_unit - 1) / pages_per_unit;
  }

  __device__ __forceinline__ Segment segment_at(int unit) const {
    Segment segment;
    segment.unit = unit;
    if (unit >= end) return segment;
    // The last sequence that begins at or before `unit`; sequences without units are never the last such.
    int low = 0, high = call.sequences - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (begins[middle] <= unit)
        low = middle;
      else
        high = middle - 1;
    }
    segment.sequence = low;
    segment.keys = keys_of(low);
    segment.sequence_begin = begins[low];
    segment.sequence_end = begins[low + 1];
    segment.first_page = segment.keys.first / kTileKeys + (unit - segment.sequence_begin) * pages_per_unit;
    segment.last_page = (segment.keys.last - 1) / kTileKeys;
    segment.units = min(segment.sequence_end, end) - unit;
    segment.whole = segment.sequence_begin >= begin && segment.sequence_end <= end;
    return segment;
  }
};

// Writes zeros for sequences without keys, which only fill up a recorded step.
template <class T>
__device__ __forceinline__ void zero_empty_sequences(const AttentionCall& call, const PageWork& work) {
  for (int s = blockIdx.x; s < call.sequences; s += gridDim.x) {
    if (work.begins[s] < work.begins[s + 1]) continue;
    T* out = static_cast<T*>(call.out) + s * call.out_strides.token;
    for (int i = threadIdx.x; i < call.heads * call.head_size; i += blockDim.x)
      out[i / call.head_size * call.out_strides.head + i % call.head_size] = from_float<T>(0.0f);
  }
}

#endif

}  // namespace fk::cuda
