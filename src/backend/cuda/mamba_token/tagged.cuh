// Vectors that blocks exchange without a barrier. A word of 8 bytes is written and read at once; it holds two elements
// and a tag, which differs from layer to layer and from launch to launch, so a reader sees whether the elements are
// those it waits for. With a barrier the results, the arrival and the reading are three ways through the memory, one
// after the other, and weights keep it busy; here it is one.
//
// Whoever writes a vector again must know that all blocks have read it.
#pragma once

#include <cstdint>
#include <cstring>

#include "backend/cuda/decode_megakernel/staging.cuh"

namespace fk::cuda {

template <class T>
__device__ __forceinline__ void send_pair(uint64_t* to, float first, float second, uint32_t tag) {
  static_assert(sizeof(T) == 2);
  const Pack<T, 2> both{{from_float<T>(first), from_float<T>(second)}};
  uint32_t bits;
  memcpy(&bits, &both, sizeof bits);
  const uint64_t word = static_cast<uint64_t>(tag) << 32 | bits;
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}

// Eight elements; false if some do not have the tag yet.
template <class T>
__device__ __forceinline__ bool try_receive(const uint64_t* from, uint32_t tag, Pack8<T>& pack) {
  uint64_t words[4];
#pragma unroll
  for (int i = 0; i < 4; i += 2)
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(words[i]), "=l"(words[i + 1])
                 : "l"(from + i)
                 : "memory");
  bool all = true;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto bits = static_cast<uint32_t>(words[i]);
    memcpy(&pack.at[2 * i], &bits, sizeof bits);
    all = all && static_cast<uint32_t>(words[i] >> 32) == tag;
  }
  return all;
}

// The elements from at(0), at(1) .. on, eight each, as far as there are `length`.
template <class T, int kPacks, class At>
__device__ __forceinline__ void receive(const uint64_t* from, uint32_t tag, int length, const At& at,
                                        Pack8<T> (&packs)[kPacks]) {
  bool all;
  do {
    all = true;
#pragma unroll
    for (int j = 0; j < kPacks; ++j)
      if (at(j) < length) all = try_receive(from + at(j) / 2, tag, packs[j]) && all;
  } while (!all);
}

}  // namespace fk::cuda
