// The channels of a block of the Mamba kernel, and the rounds in which it multiplies their rows.
#pragma once

#include "backend/cuda/decode_megakernel/weight_stream.cuh"
#include "backend/cuda/mamba_token/channel_share.h"

namespace fk::cuda {

// This block's channels, layer after layer: blocks that have more of them take turns.
class ChannelShare {
 public:
  __device__ __forceinline__ PairRange pairs(const DividedShape& s) const {
    return channel_pairs_of_block(s.division, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), first_block_);
  }
  template <class Visit>
  __device__ __forceinline__ void for_rounds(const DividedShape& s, const Visit& visit) const {
    const PairRange own = pairs(s);
    visit_rounds(own, rounds_of_channels(s.division, own), visit);
  }
  __device__ __forceinline__ void next_layer(const DividedShape& s) {
    first_block_ = next_first_block(s.division, static_cast<int>(gridDim.x), first_block_);
  }

 private:
  int first_block_ = 0;
};

// The rounds of a block that has some; after the first one, then().
template <class Then>
struct RoundsAndThen {
  const ChannelShare& share;
  const Then& then;

  template <class Visit>
  __device__ __forceinline__ void for_rounds(const DividedShape& s, const Visit& visit) const {
    bool is_first = true;
    share.for_rounds(s, [&](int first, int count, int columns) {
      visit(first, count, columns);
      if (is_first) then();
      is_first = false;
    });
  }
};

}  // namespace fk::cuda
