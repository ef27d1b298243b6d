// What the first kernel of the chunk form leaves for the second, and how chunks are counted.
//
// With G_t the sum of the logarithms of decays up to token t of a chunk, S the state before it, u_t = a_t^T S_{t-1}:
//
//   U = W S + P V                      W = L A~,  P = L Aak,  L = (I - Aab)^-1,  A~_t = a_t exp(G_{t-1})
//   O = Q~ S + Aqk V + Aqb U           Q~_t = q_t exp(G_t)
//   S <- exp(G_end) S + K~^T V + B~^T U  K~_t = k_t exp(G_end - G_t), B~ likewise
//
// where Axy(t, s) is the sum of x_t y_s exp(G_t - G_s) over channels for s <= t (for x = a: G_{t-1}, s < t). Without a
// delta rule U is missing; with beta, B~ = -K~ and Aqb = -Aqk, so that V - U takes the place of V.
#pragma once

#include <cstdint>

#include "backend/cuda/recurrence/device_recurrence.cuh"

namespace fk::cuda {

inline constexpr int kChunk = 64;                      // tokens
inline constexpr size_t kMostSharedBytes = 227 << 10;  // of a block, on sm_90

// [chunk, H, 64, channels], channels padded with zeros to a multiple of 16; or [chunk, H, 64, 64]. Rounded to TF32.
struct ChunkScratch {
  float *q, *k, *w, *b;  // Q~, K~, W, B~
  float *qk, *p, *qb;    // Aqk, P, Aqb
  float* decay;          // [chunk, H, channels]: exp(G_end)
  int channels = 0, heads = 0;
  int first = 0, count = 0;  // the chunks of the call that are worked on at once

  __device__ __forceinline__ int64_t place(int chunk, int h) const {
    return static_cast<int64_t>(chunk - first) * heads + h;
  }
  __device__ __forceinline__ float* rows(float* of, int chunk, int h) const {
    return of + place(chunk, h) * kChunk * channels;
  }
  __device__ __forceinline__ float* square(float* of, int chunk, int h) const {
    return of + place(chunk, h) * kChunk * kChunk;
  }
  __device__ __forceinline__ float* decays(int chunk, int h) const { return decay + place(chunk, h) * channels; }
};

// Which tokens a chunk of the call has. The host does not know how long the sequences are.
struct ChunkTokens {
  int64_t begin = 0;
  int count = 0;  // 0: there is no such chunk
};

template <class T>
__device__ ChunkTokens find_chunk(const DeviceRecurrence<T>& c, int chunk) {
  for (int s = 0; s < c.sequences; ++s) {
    const int64_t begin = c.begin(s), end = c.end(s);
    const int chunks = static_cast<int>((end - begin + kChunk - 1) / kChunk);
    if (chunk < chunks) {
      const int64_t first = begin + static_cast<int64_t>(chunk) * kChunk;
      return {first, static_cast<int>(end - first < kChunk ? end - first : kChunk)};
    }
    chunk -= chunks;
  }
  return {};
}

__device__ __forceinline__ float to_tf32(float x) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
}

template <class T>
void prepare_chunks(Delta delta, const DeviceRecurrence<T>& call, const ChunkScratch& scratch, void* stream);
template <class T>
void scan_chunks(Delta delta, const DeviceRecurrence<T>& call, const ChunkScratch& scratch, void* stream);
// Of the second kernel, in bytes.
size_t scan_shared_bytes(Delta delta, int channels);

}  // namespace fk::cuda
