// One warp: a lane per sequence, and a running sum over the lengths.
#include "backend/cuda/l1/advance_rows.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"

namespace fk::cuda {
namespace {

__global__ void advance(AdvanceRows r) {
  let_next_start();
  wait_for_previous();
  const int lane = threadIdx.x;
  int before = 0;
  if (lane == 0) r.running_sum[0] = 0;
  for (int first = 0; first < r.sequences; first += 32) {
    const int s = first + lane;
    int length = 0;
    if (s < r.sequences) {
      length = r.seq_lens[s];
      int64_t slot = -1;
      r.input_ids[s] = length > 0 ? r.sampled[s] : 0;
      if (length > 0) {
        r.seq_lens[s] = ++length;
        ++r.steps[s];
        const int64_t position = ++r.positions[s], block = position / r.block_size;
        if (block < r.width)
          slot = static_cast<int64_t>(r.block_table[s * r.width + block]) * r.block_size + position % r.block_size;
      }
      r.slots[s] = slot;
    }
    int sum = length;
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      const int other = __shfl_up_sync(kAllLanes, sum, lanes);
      if (lane >= lanes) sum += other;
    }
    if (s < r.sequences) r.running_sum[s + 1] = before + sum;
    before += __shfl_sync(kAllLanes, sum, 31);
  }
}

}  // namespace

void advance_rows(const AdvanceRows& rows, void* stream) { launch("advance", advance, 1, 32, 0, stream, rows); }

}  // namespace fk::cuda
