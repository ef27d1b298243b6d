// Sines and cosines of rotary embeddings, computed on the fly: no table, so no limit of positions and no allocation.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backend/cuda/l1/rotary_frequencies.h"

namespace fk::cuda {

struct SinCos {
  float sin;
  float cos;
};

// Of an angle in double, |angle| < 2^30, within 1e-7. It is reduced to quarter turns in double, where a position of a
// million still leaves ten correct digits; the remainder is computed in float.
__device__ __forceinline__ SinCos sin_cos(double angle) {
  const double quarters = angle * 0x1.45f306dc9c883p-1;  // 2 / pi
  const double whole = rint(quarters);
  float s, c;
  sincospif(0.5f * static_cast<float>(quarters - whole), &s, &c);
  const int quarter = static_cast<int>(static_cast<int64_t>(whole) & 3);
  const float sine = (quarter & 1) != 0 ? c : s, cosine = (quarter & 1) != 0 ? s : c;
  return {(quarter & 2) != 0 ? -sine : sine, ((quarter + 1) & 2) != 0 ? -cosine : cosine};
}

// Computes the angles of one token in shared memory, by all threads of a block; synchronise before reading them.
struct TokenAngles {
  float cos[kMaxRotaryPairs];
  float sin[kMaxRotaryPairs];

  __device__ __forceinline__ void compute(const RotaryFrequencies& frequencies, int64_t position) {
    for (int i = static_cast<int>(threadIdx.x); i < frequencies.pairs; i += static_cast<int>(blockDim.x)) {
      const SinCos turn = sin_cos(static_cast<double>(position) * frequencies.at[i]);
      cos[i] = turn.cos * frequencies.factor;
      sin[i] = turn.sin * frequencies.factor;
    }
  }
};

}  // namespace fk::cuda
