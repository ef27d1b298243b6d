// The part of the chunk form that does not need the state: one block for each chunk and head.
//
// Decays of a chunk can be too strong for exp(-G) to be finite, so scores are never split into exp(G_t) and exp(-G_s).
// Tokens are in four parts of 16. Within a part every pair of tokens has its own exponential; between parts the sum of
// decays is split at the end of the earlier part and at the beginning of the later one, and all factors are at most 1.
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/recurrence/chunk_scratch.cuh"

namespace fk::cuda {
namespace {

constexpr int kPrepareThreads = 256, kSlab = 32, kRow = kSlab + 1;  // channels at a time, and the distance of rows
constexpr int kPart = 16, kParts = kChunk / kPart, kPairs = kParts * (kParts - 1) / 2;
constexpr int kSquare = kChunk + 4;  // distance of rows of a matrix of scores
constexpr int kWarpTokens = kChunk / (kPrepareThreads / 32);

// Slabs that are in shared memory: G, and every vector as it is and with the factor of its part.
constexpr int slabs_of(Delta delta) { return delta == Delta::kNone ? 5 : delta == Delta::kBeta ? 7 : 9; }

constexpr size_t prepare_shared_bytes(Delta delta) {
  const size_t slabs = static_cast<size_t>(slabs_of(delta)) * kChunk * kRow + kPairs * kRow + 8 * kSlab;
  const size_t solve = 2 * static_cast<size_t>(kChunk) * kSquare;  // reuses the same memory
  return 4 * (slabs > solve ? slabs : solve);
}

__device__ __forceinline__ int later_of(int pair) { return pair == 0 ? 1 : pair < 3 ? 2 : 3; }
__device__ __forceinline__ int earlier_of(int pair) { return pair == 0 ? 0 : pair < 3 ? pair - 1 : pair - 3; }

// Scores of one pair of vectors, for the 16 x 16 pairs of tokens (threadIdx.x / 16, threadIdx.x % 16) of each part and
// between parts.
struct Scores {
  float within[kParts] = {}, between[kPairs] = {};

  // As rows of a matrix; `diagonal`: the scores of a token with itself count.
  template <class Write>
  __device__ __forceinline__ void each(bool diagonal, Write&& write) const {
    const int tt = threadIdx.x / kPart, ss = threadIdx.x % kPart;
#pragma unroll
    for (int p = 0; p < kParts; ++p)
      write(p * kPart + tt, p * kPart + ss, ss < tt || (diagonal && ss == tt) ? within[p] : 0.0f);
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      write(later_of(p) * kPart + tt, earlier_of(p) * kPart + ss, between[p]);
      write(earlier_of(p) * kPart + tt, later_of(p) * kPart + ss, 0.0f);
    }
  }
};

// Solves (I - L) x = x for one column; L is strictly lower.
__device__ __forceinline__ void solve_column(const float* L, float (&x)[kChunk]) {
#pragma unroll
  for (int t = 1; t < kChunk; ++t) {
    float sums[4] = {x[t], 0, 0, 0};
#pragma unroll
    for (int s = 0; s < t; s += 4) {
      const float4 row = *reinterpret_cast<const float4*>(L + t * kSquare + s);
      sums[0] = fmaf(row.x, x[s], sums[0]);
      if (s + 1 < t) sums[1] = fmaf(row.y, x[s + 1], sums[1]);
      if (s + 2 < t) sums[2] = fmaf(row.z, x[s + 2], sums[2]);
      if (s + 3 < t) sums[3] = fmaf(row.w, x[s + 3], sums[3]);
    }
    x[t] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
}

// With a delta rule a thread solves for a column of 64 numbers; the few of them that two blocks on a multiprocessor
// leave no registers for cost less than half of the warps.
template <class T, Delta kDelta>
__global__ void __launch_bounds__(kPrepareThreads, kDelta == Delta::kNone ? 1 : 2)
    prepare_chunk(const DeviceRecurrence<T> c, const ChunkScratch out) {
  extern __shared__ __align__(16) float shared[];
  let_next_start();
  wait_for_previous();
  const int chunk = out.first + blockIdx.x, h = blockIdx.y;
  const ChunkTokens tokens = find_chunk(c, chunk);
  if (tokens.count == 0) return;

  constexpr int kSize = kChunk * kRow;
  float *G = shared, *q = G + kSize, *k = q + kSize, *q_part = k + kSize, *k_part = q_part + kSize;
  float *a = k_part + kSize, *a_part = a + kSize, *b = a_part + kSize, *b_part = b + kSize;  // as far as there are
  float* factors = shared + slabs_of(kDelta) * kSize;                                        // between parts
  float* totals = factors + kPairs * kRow;  // of the tokens of each warp
  float *q_out = out.rows(out.q, chunk, h), *k_out = out.rows(out.k, chunk, h);
  float* w_out = kDelta == Delta::kNone ? nullptr : out.rows(out.w, chunk, h);
  float* b_out = kDelta == Delta::kVectors ? out.rows(out.b, chunk, h) : nullptr;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int tt = threadIdx.x / kPart, ss = threadIdx.x % kPart;
  Scores qk, ak, qb, ab;

  for (int first = 0; first < out.channels; first += kSlab) {
    const int i = first + lane;
    float g[kWarpTokens], sum = 0;
#pragma unroll
    for (int j = 0; j < kWarpTokens; ++j) {
      const int t = warp * kWarpTokens + j;
      sum += t < tokens.count && i < c.K ? c.log_decay(tokens.begin + t, h, i) : 0.0f;
      g[j] = sum;
    }
    __syncthreads();  // the slabs before this one have been read
    totals[warp * kSlab + lane] = sum;
    __syncthreads();
    // Sums up to this warp's tokens, up to the part before theirs, to the end of their part, and of all.
    float before = 0, part_begin = 0, part_end = 0, all = 0;
#pragma unroll
    for (int w = 0; w < kPrepareThreads / 32; ++w) {
      const float one = totals[w * kSlab + lane];
      if (w < warp) before += one;
      if (w < warp / 2 * 2) part_begin += one;
      if (w < warp / 2 * 2 + 2) part_end += one;
      all += one;
    }
    if (warp < kPairs) {
      float apart = 0;
      for (int w = 2 * earlier_of(warp) + 2; w < 2 * later_of(warp); ++w) apart += totals[w * kSlab + lane];
      factors[warp * kRow + lane] = __expf(apart);
    }
#pragma unroll
    for (int j = 0; j < kWarpTokens; ++j) {
      const int t = warp * kWarpTokens + j, at = t * kRow + lane;
      const bool inside = t < tokens.count && i < c.K;
      const int64_t token = tokens.begin + t;
      const float sum_t = before + g[j],
                  sum_a = kDelta == Delta::kVectors ? before + (j == 0 ? 0.0f : g[j - 1]) : sum_t;
      const float query = inside ? to_float(c.q.row(token, h, c.H)[i]) * c.scale : 0.0f;
      float key = inside ? to_float(c.k.row(token, h, c.H)[i]) : 0.0f, taken = key;
      if constexpr (kDelta == Delta::kBeta) key = inside ? key * c.beta_of(token, h) : 0.0f;
      if constexpr (kDelta == Delta::kVectors) taken = inside ? to_float(c.a.row(token, h, c.H)[i]) : 0.0f;
      G[at] = sum_t;
      q[at] = query;
      k[at] = key;
      q_part[at] = query * __expf(sum_t - part_begin);
      k_part[at] = key * __expf(part_end - sum_t);
      if constexpr (kDelta != Delta::kNone) {
        a[at] = taken;
        a_part[at] = taken * __expf(sum_a - part_begin);
      }
      float added = 0;
      if constexpr (kDelta == Delta::kVectors) {
        added = inside ? to_float(c.b.row(token, h, c.H)[i]) : 0.0f;
        b[at] = added;
        b_part[at] = added * __expf(part_end - sum_t);
      }
      if (i >= out.channels) continue;
      const int64_t place = static_cast<int64_t>(t) * out.channels + i;
      q_out[place] = to_tf32(query * __expf(sum_t));
      k_out[place] = to_tf32(key * __expf(all - sum_t));
      if constexpr (kDelta != Delta::kNone) w_out[place] = taken * __expf(sum_a);
      if constexpr (kDelta == Delta::kVectors) b_out[place] = to_tf32(added * __expf(all - sum_t));
    }
    if (warp == 0 && i < out.channels) out.decays(chunk, h)[i] = __expf(all);
    __syncthreads();

    const int channels = min(kSlab, c.K - first);
    for (int n = 0; n < channels; ++n) {
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        const int t = (p * kPart + tt) * kRow + n, s = (p * kPart + ss) * kRow + n;
        if (ss <= tt) {
          const float e = __expf(G[t] - G[s]), from_query = q[t] * e;
          qk.within[p] = fmaf(from_query, k[s], qk.within[p]);
          if constexpr (kDelta == Delta::kBeta) ak.within[p] = fmaf(a[t] * e, k[s], ak.within[p]);
          if constexpr (kDelta == Delta::kVectors) {
            qb.within[p] = fmaf(from_query, b[s], qb.within[p]);
            const float taken = ss < tt ? a[t] * __expf(G[t - kRow] - G[s]) : 0.0f;
            ak.within[p] = fmaf(taken, k[s], ak.within[p]);
            ab.within[p] = fmaf(taken, b[s], ab.within[p]);
          }
        }
      }
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        const int t = (later_of(p) * kPart + tt) * kRow + n, s = (earlier_of(p) * kPart + ss) * kRow + n;
        const float factor = factors[p * kRow + n], from_query = q_part[t] * factor;
        qk.between[p] = fmaf(from_query, k_part[s], qk.between[p]);
        if constexpr (kDelta != Delta::kNone) {
          const float taken = a_part[t] * factor;
          ak.between[p] = fmaf(taken, k_part[s], ak.between[p]);
          if constexpr (kDelta == Delta::kVectors) {
            qb.between[p] = fmaf(from_query, b_part[s], qb.between[p]);
            ab.between[p] = fmaf(taken, b_part[s], ab.between[p]);
          }
        }
      }
    }
  }

  float* qk_out = out.square(out.qk, chunk, h);
  qk.each(true, [&](int t, int s, float x) { qk_out[t * kChunk + s] = to_tf32(x); });
  if constexpr (kDelta == Delta::kVectors) {
    float* qb_out = out.square(out.qb, chunk, h);
    qb.each(true, [&](int t, int s, float x) { qb_out[t * kChunk + s] = to_tf32(x); });
  }
  if constexpr (kDelta != Delta::kNone) {
    float *L = shared, *right = L + kChunk * kSquare;
    __syncthreads();  // the slabs have been read
    if constexpr (kDelta == Delta::kVectors)
      ab.each(false, [&](int t, int s, float x) { L[t * kSquare + s] = x; });
    else
      ak.each(false, [&](int t, int s, float x) { L[t * kSquare + s] = -x; });
    ak.each(false, [&](int t, int s, float x) { right[t * kSquare + s] = x; });
    __syncthreads();
    float* p_out = out.square(out.p, chunk, h);
    for (int column = threadIdx.x; column < out.channels + kChunk; column += kPrepareThreads) {
      const bool of_keys = column < out.channels;
      float x[kChunk];
#pragma unroll
      for (int t = 0; t < kChunk; ++t)
        x[t] = of_keys ? w_out[static_cast<int64_t>(t) * out.channels + column]
                       : right[t * kSquare + column - out.channels];
      solve_column(L, x);
#pragma unroll
      for (int t = 0; t < kChunk; ++t) {
        if (of_keys)
          w_out[static_cast<int64_t>(t) * out.channels + column] = to_tf32(x[t]);
        else
          p_out[t * kChunk + column - out.channels] = to_tf32(x[t]);
      }
    }
  }
}

}  // namespace

template <class T>
void prepare_chunks(Delta delta, const DeviceRecurrence<T>& call, const ChunkScratch& scratch, void* stream) {
  with_delta(delta, [&](auto which) {
    constexpr Delta kDelta = decltype(which)::value;
    static const bool allowed = [] {
      allow_shared_memory("linear_recurrence", prepare_chunk<T, kDelta>, prepare_shared_bytes(kDelta));
      return true;
    }();
    (void)allowed;
    launch("linear_recurrence", prepare_chunk<T, kDelta>,
           dim3(static_cast<unsigned>(scratch.count), static_cast<unsigned>(call.H)), dim3(kPrepareThreads),
           prepare_shared_bytes(kDelta), stream, call, scratch);
  });
}

template void prepare_chunks(Delta, const DeviceRecurrence<__half>&, const ChunkScratch&, void*);
template void prepare_chunks(Delta, const DeviceRecurrence<__nv_bfloat16>&, const ChunkScratch&, void*);

}  // namespace fk::cuda
