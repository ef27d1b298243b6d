// A block for each head of a sequence: the second matrices of the low-rank pairs, gates, the recurrence, the norm of
// the head, the correction and the output gate. The matrices are copied to shared memory before the block waits for the
// previous kernel, and multiplied by tensor cores, with the vector as one of eight columns. Results are rounded where
// kernels of their own would store them.
#include "backend/cuda/recurrence/rwkv7_heads.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/l1/map_rows.cuh"

namespace fk::cuda {
namespace {

constexpr int kHeadThreads = 512, kHeadWarps = kHeadThreads / 32;
constexpr int kHeadWidth = 64;                            // channels at most
constexpr int kHeadTiles = kHeadWidth / 16;               // of 16 channels
constexpr int kLowSplits = kHeadWarps / kHeadTiles;       // warps that share a tile of the matrices
constexpr int kLowChunk = 32;                             // elements of a row that four threads have
constexpr int kMostLowChunks = 20;                        // of all four matrices
constexpr int kColumnGroups = kHeadWidth / 4;             // threads have 4 neighbouring columns of the state
constexpr int kRowGroups = kHeadThreads / kColumnGroups;  // and every 32nd row
constexpr int kStateRows = kHeadWidth / kRowGroups;
constexpr int kSums = 10;                                // over the rows of the state
constexpr float kHeadDecayScale = -0.6065306597126334f;  // -e^-0.5, as in RWKV7Gates

template <class T>
struct HeadsCall {
  RowsOf<const T> r, k, v, low, v_first;
  const T* up[4];
  const T* up_bias[4];
  // Chunks of a matrix begin at first_chunk, its columns of `low` at first_low.
  int rank[4], first_chunk[5], first_low[4];
  bool vector[4];  // rows can be copied 16 bytes at a time
  int up_stride;   // from row to row of all four in shared memory
  const T *k_k, *k_a, *r_k, *norm_weight, *norm_bias;
  float* state;
  RowsOf<T> out;
  const int32_t *slots, *starts;  // starts: none where every sequence has one token
  int first_token, heads, width;
  float key_eps, norm_eps;

  __device__ __forceinline__ int matrix_of(int chunk) const {
    return (chunk >= first_chunk[1]) + (chunk >= first_chunk[2]) + (chunk >= first_chunk[3]);
  }
};

template <class T>
__device__ __forceinline__ float rounded(float x) {
  return to_float(from_float<T>(x));
}
__device__ __forceinline__ float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }

// The rows of the low-rank matrices of a head side by side, each matrix padded to whole chunks.
template <class T>
__device__ __forceinline__ void copy_low_rank(const HeadsCall<T>& c, int first, T* to) {
  constexpr int N = kPackElements<T>;
  for (int p = threadIdx.x % 32; p < c.first_chunk[4] * (kLowChunk / N); p += 32) {
    const int m = c.matrix_of(p / (kLowChunk / N)), at = p * N - c.first_chunk[m] * kLowChunk, rank = c.rank[m];
    for (int channel = threadIdx.x / 32; channel < c.width; channel += kHeadWarps) {
      const T* row = c.up[m] + static_cast<int64_t>(first + channel) * rank;
      T* pack = to + channel * c.up_stride + p * N;
      if (c.vector[m]) {
        copy_async(static_cast<uint32_t>(__cvta_generic_to_shared(pack)), at < rank ? row + at : row, at < rank);
      } else {
        for (int i = 0; i < N; ++i) pack[i] = at + i < rank ? row[at + i] : from_float<T>(0.0f);
      }
    }
  }
  commit_copies();
}

template <class T>
__global__ void __launch_bounds__(kHeadThreads, 2) rwkv7_heads(const __grid_constant__ HeadsCall<T> c) {
  extern __shared__ __align__(16) unsigned char heads_shared[];
  T* up = reinterpret_cast<T*>(heads_shared);
  __shared__ __align__(16) T low[kMostLowChunks * kLowChunk];
  __shared__ float gate_parts[kLowSplits][4][kHeadWidth];
  __shared__ float decay[kHeadWidth], key[kHeadWidth], taken[kHeadWidth], added[kHeadWidth], query[kHeadWidth];
  __shared__ __align__(16) float value[kHeadWidth], head_out[kHeadWidth];
  __shared__ float sums[kHeadWarps][kSums * kColumnGroups], totals[kSums * kColumnGroups];
  __shared__ float2 pairs[2];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int h = blockIdx.x, s = blockIdx.y, first = h * c.width, at = first + tid;
  // The first two warps have a channel for each thread.
  const bool has_channel = tid < kHeadWidth, inside = tid < c.width;

  copy_low_rank(c, first, up);
  float bias[4] = {}, k_k = 0, k_a = 0, r_k = 0, norm_weight = 0, norm_bias = 0;
  if (inside) {
#pragma unroll
    for (int m = 0; m < 4; ++m)
      if (c.up_bias[m] != nullptr) bias[m] = to_float(c.up_bias[m][at]);
    k_k = to_float(c.k_k[at]);
    k_a = to_float(c.k_a[at]);
    r_k = to_float(c.r_k[at]);
    norm_weight = to_float(c.norm_weight[at]);
    if (c.norm_bias != nullptr) norm_bias = to_float(c.norm_bias[at]);
  }
  let_next_start();
  wait_for_previous();

  const int begin = c.first_token + (c.starts != nullptr ? c.starts[s] : s);
  const int end = c.first_token + (c.starts != nullptr ? c.starts[s + 1] : s + 1);
  if (begin >= end) return;  // the whole block
  const int slot = c.slots[s];
  const int column = tid % kColumnGroups * 4, first_row = tid / kColumnGroups;
  const int64_t matrix = static_cast<int64_t>(c.width) * c.width;
  float* base = c.state + (static_cast<int64_t>(slot < 0 ? 0 : slot) * c.heads + h) * matrix;
  float4 S[kStateRows];

  for (int t = begin; t < end; ++t) {
    float k = 0, r = 0, v = 0, earlier = 0;
    if (inside) {
      k = to_float(c.k.row(t)[at]);
      r = to_float(c.r.row(t)[at]);
      v = to_float(c.v.row(t)[at]);
      if (c.v_first.at != nullptr) earlier = to_float(c.v_first.row(t)[at]);
    }
    for (int i = tid; i < c.first_chunk[4] * kLowChunk; i += kHeadThreads) {
      const int m = c.matrix_of(i / kLowChunk), of_matrix = i - c.first_chunk[m] * kLowChunk;
      low[i] = of_matrix < c.rank[m] ? c.low.row(t)[c.first_low[m] + of_matrix] : from_float<T>(0.0f);
    }
    if (t == begin) {  // after the loads that are needed first
#pragma unroll
      for (int j = 0; j < kStateRows; ++j) {
        const int i = first_row + j * kRowGroups;
        S[j] = make_float4(0, 0, 0, 0);
        if (slot >= 0 && i < c.width && column < c.width)
          S[j] = *reinterpret_cast<const float4*>(base + i * c.width + column);
      }
      wait_copies<0>();
    }
    __syncthreads();

    // 16 channels of each matrix, a part of its length; the order of a sum does not matter, so threads have 8 adjacent
    // elements.
    {
      const int group = lane / 4, quad = lane % 4, tile = warp % kHeadTiles, split = warp / kHeadTiles;
      const T* rows = up + (tile * 16 + group) * c.up_stride + 8 * quad;
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        float sum[4] = {};
        for (int chunk = c.first_chunk[m] + split; chunk < c.first_chunk[m + 1]; chunk += kLowSplits) {
          const uint4 a = *reinterpret_cast<const uint4*>(rows + chunk * kLowChunk);
          const uint4 b = *reinterpret_cast<const uint4*>(rows + 8 * c.up_stride + chunk * kLowChunk);
          uint4 x{0, 0, 0, 0};
          if (group == 0) x = *reinterpret_cast<const uint4*>(low + chunk * kLowChunk + 8 * quad);
          multiply_tile<T>(sum, a.x, b.x, a.y, b.y, x.x, x.y);
          multiply_tile<T>(sum, a.z, b.z, a.w, b.w, x.z, x.w);
        }
        if (quad == 0) {
          gate_parts[split][m][tile * 16 + group] = sum[0];
          gate_parts[split][m][tile * 16 + group + 8] = sum[2];
        }
      }
    }
    __syncthreads();

    float gate[4] = {}, rate = 0, mixed_key = 0;
    if (has_channel) {
#pragma unroll
      for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int split = 0; split < kLowSplits; ++split) gate[m] += gate_parts[split][m][tid];
        gate[m] = rounded<T>(gate[m] + bias[m]);
      }
      rate = sigmoid_of(gate[1]);
      if (inside) {
        mixed_key = rounded<T>(k * (1.0f + (rate - 1.0f) * k_a));
        if (c.v_first.at != nullptr) v = rounded<T>(v + (earlier - v) * sigmoid_of(gate[3]));
      }
      // Sums over the head: of the square of k k_k, and of what the token gives itself.
      const float square = reduce_warp<Sum>(k * k_k * (k * k_k)), own = reduce_warp<Sum>(r * mixed_key * r_k);
      if (lane == 0) pairs[warp] = make_float2(square, own);
    }
    __syncthreads();
    const float own = pairs[0].y + pairs[1].y;
    if (has_channel) {
      const float unit = k * k_k * (1.0f / sqrtf(pairs[0].x + pairs[1].x + c.key_eps));
      decay[tid] = inside ? expf(kHeadDecayScale * sigmoid_of(gate[0])) : 0.0f;
      key[tid] = mixed_key;
      taken[tid] = rounded<T>(-unit);
      added[tid] = inside ? rounded<T>(unit * rate) : 0.0f;
      query[tid] = r;
      value[tid] = v;
    }
    __syncthreads();

    // out = S'^T q with S' = decay S + added removed^T + key v^T, so one pass over S gives what both need: a^T S and
    // q^T decay S for four columns, q added and q key.
    float sum[kSums] = {};
    const float4 values = *reinterpret_cast<const float4*>(value + column);
#pragma unroll
    for (int j = 0; j < kStateRows; ++j) {
      const int i = first_row + j * kRowGroups;
      const float a = taken[i], d = decay[i], q = query[i];
      sum[0] = fmaf(a, S[j].x, sum[0]);
      sum[1] = fmaf(a, S[j].y, sum[1]);
      sum[2] = fmaf(a, S[j].z, sum[2]);
      sum[3] = fmaf(a, S[j].w, sum[3]);
      S[j].x *= d;
      S[j].y *= d;
      S[j].z *= d;
      S[j].w *= d;
      sum[4] = fmaf(q, S[j].x, sum[4]);
      sum[5] = fmaf(q, S[j].y, sum[5]);
      sum[6] = fmaf(q, S[j].z, sum[6]);
      sum[7] = fmaf(q, S[j].w, sum[7]);
      sum[8] = fmaf(q, added[i], sum[8]);
      sum[9] = fmaf(q, key[i], sum[9]);
    }
#pragma unroll
    for (int n = 0; n < kSums; ++n) {
      sum[n] += __shfl_xor_sync(kAllLanes, sum[n], kColumnGroups);
      if (lane < kColumnGroups) sums[warp][n * kColumnGroups + lane] = sum[n];
    }
    __syncthreads();
    if (tid < kSums * kColumnGroups) {
      float total = 0;
#pragma unroll
      for (int w = 0; w < kHeadWarps; ++w) total += sums[w][tid];
      totals[tid] = total;
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kSums; ++n) sum[n] = totals[n * kColumnGroups + tid % kColumnGroups];
    if (first_row == 0) {
      auto out_of = [&](int n, float of_value) {
        return rounded<T>(fmaf(sum[8], sum[n], fmaf(sum[9], of_value, sum[4 + n])));
      };
      *reinterpret_cast<float4*>(head_out + column) =
          make_float4(out_of(0, values.x), out_of(1, values.y), out_of(2, values.z), out_of(3, values.w));
    }
#pragma unroll
    for (int j = 0; j < kStateRows; ++j) {
      const int i = first_row + j * kRowGroups;
      const float b = added[i], x = key[i];
      S[j].x = fmaf(b, sum[0], fmaf(x, values.x, S[j].x));
      S[j].y = fmaf(b, sum[1], fmaf(x, values.y, S[j].y));
      S[j].z = fmaf(b, sum[2], fmaf(x, values.z, S[j].z));
      S[j].w = fmaf(b, sum[3], fmaf(x, values.w, S[j].w));
    }
    __syncthreads();

    // The norm of the head, by both warps for themselves.
    if (has_channel) {
      const bool low_half = lane < c.width, high_half = lane + 32 < c.width;
      const float o0 = low_half ? head_out[lane] : 0.0f, o1 = high_half ? head_out[lane + 32] : 0.0f;
      const float mean = reduce_warp<Sum>(o0 + o1) / static_cast<float>(c.width);
      const float away0 = low_half ? o0 - mean : 0.0f, away1 = high_half ? o1 - mean : 0.0f;
      const float variance = reduce_warp<Sum>(fmaf(away0, away0, away1 * away1)) / static_cast<float>(c.width);
      if (inside) {
        const float normed = (head_out[tid] - mean) * (1.0f / sqrtf(variance + c.norm_eps)) * norm_weight;
        const float o = rounded<T>(c.norm_bias != nullptr ? normed + norm_bias : normed);
        c.out.row(t)[at] = from_float<T>(fmaf(own, v, o) * gate[2]);
      }
    }
    // The next token writes what this one has read only after barriers that follow the reads.
  }

  if (slot < 0) return;
#pragma unroll
  for (int j = 0; j < kStateRows; ++j) {
    const int i = first_row + j * kRowGroups;
    if (i < c.width && column < c.width) *reinterpret_cast<float4*>(base + i * c.width + column) = S[j];
  }
}

int chunks_of(int64_t rank) { return static_cast<int>((rank + kLowChunk - 1) / kLowChunk); }
// Rows an odd number of chunks apart: reads of eight rows hit different banks.
constexpr int stride_of(int chunks) { return (chunks | 1) * kLowChunk; }

template <class T>
void start_heads(const Rwkv7Heads& given, const SequenceGroup& group, int64_t first_token, bool decoding,
                 void* stream) {
  HeadsCall<T> c{};
  c.r = rows_of<const T>(given.r);
  c.k = rows_of<const T>(given.k);
  c.v = rows_of<const T>(given.v);
  c.low = rows_of<const T>(given.low);
  if (given.v_first) c.v_first = rows_of<const T>(*given.v_first);
  int first_low = 0;
  for (int m = 0; m < 4; ++m) {
    const LowRankUp& up = given.up[static_cast<size_t>(m)];
    c.rank[m] = static_cast<int>(up.rank());
    c.first_low[m] = first_low;
    c.first_chunk[m + 1] = c.first_chunk[m] + chunks_of(up.rank());
    first_low += c.rank[m];
    if (!up.weight) continue;
    c.up[m] = static_cast<const T*>(up.weight->data());
    c.vector[m] = rows_fit_packs(*up.weight);
    if (up.bias) c.up_bias[m] = static_cast<const T*>(up.bias->data());
  }
  c.up_stride = stride_of(c.first_chunk[4]);
  auto start = [](const View& v) { return static_cast<const T*>(v.data()); };
  c.k_k = start(given.k_k);
  c.k_a = start(given.k_a);
  c.r_k = start(given.r_k);
  c.norm_weight = start(given.norm_weight);
  if (given.norm_bias) c.norm_bias = start(*given.norm_bias);
  c.state = static_cast<float*>(given.state.data());
  c.out = rows_of<T>(given.out);
  c.slots = static_cast<const int32_t*>(group.state_slots.data());
  if (!decoding) c.starts = static_cast<const int32_t*>(group.cu_seqlens_q.data());
  c.first_token = static_cast<int>(first_token);
  c.heads = static_cast<int>(given.heads());
  c.width = static_cast<int>(given.head_dim());
  c.key_eps = static_cast<float>(given.key_eps);
  c.norm_eps = static_cast<float>(given.norm_eps);
  constexpr size_t kMostShared = static_cast<size_t>(kHeadWidth) * stride_of(kMostLowChunks) * sizeof(T);
  static const bool allowed = (allow_shared_memory("rwkv7_heads", rwkv7_heads<T>, kMostShared), true);
  (void)allowed;
  launch("rwkv7_heads", rwkv7_heads<T>,
         dim3(static_cast<unsigned>(c.heads), static_cast<unsigned>(group.num_sequences)), kHeadThreads,
         static_cast<size_t>(kHeadWidth) * c.up_stride * sizeof(T), stream, c);
}

}  // namespace

std::string_view refuse_rwkv7_heads(const Rwkv7Heads& call, int64_t head_dim) {
  if (head_dim > kHeadWidth || head_dim % 4 != 0) return "heads have at most 64 channels, a multiple of 4";
  int chunks = 0;
  for (const LowRankUp& up : call.up) chunks += chunks_of(up.rank());
  if (chunks > kMostLowChunks) return "the low-rank matrices together have a rank of at most 640";
  if (shared_memory_of_block() < size_t{112} << 10) return "a block needs 112 KiB of shared memory";
  return {};
}

void run_rwkv7_heads(const Rwkv7Heads& call, const AttentionMetadata& batch, void* stream) {
  auto typed = [&]<class T>() {
    if (batch.decode.num_tokens > 0) start_heads<T>(call, batch.decode, 0, true, stream);
    if (batch.prefill.num_tokens > 0) start_heads<T>(call, batch.prefill, batch.decode.num_tokens, false, stream);
  };
  if (call.r.dtype() == DType::kBF16)
    typed.template operator()<__nv_bfloat16>();
  else
    typed.template operator()<__half>();
}

}  // namespace fk::cuda
