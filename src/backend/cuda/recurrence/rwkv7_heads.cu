// A block for each head of a sequence: the second matrices of the low-rank pairs, gates, the recurrence, the norm of
// the head, the correction and the output gate. Eight threads have a channel, and what they need of the matrices is in
// their registers before the block waits for the previous kernel. Results are rounded where kernels of their own would
// store them.
#include "backend/cuda/recurrence/rwkv7_heads.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/l1/map_rows.cuh"

namespace fk::cuda {
namespace {

constexpr int kHeadThreads = 512, kHeadWarps = kHeadThreads / 32;
constexpr int kHeadWidth = 64;                              // channels at most
constexpr int kChannelThreads = kHeadThreads / kHeadWidth;  // of a channel
constexpr int kLowPack = 8;                                 // elements of a low-rank row that are loaded at once
constexpr int kMostLowPacks = 80;                           // of all four matrices
constexpr int kColumnGroups = kHeadWidth / 4;               // threads have 4 neighbouring columns of the state
constexpr int kRowGroups = kHeadThreads / kColumnGroups;    // and every 32nd row
constexpr int kStateRows = kHeadWidth / kRowGroups;
constexpr int kSums = 10;                                // over the rows of the state
constexpr float kHeadDecayScale = -0.6065306597126334f;  // -e^-0.5, as in RWKV7Gates

template <class T>
struct HeadsCall {
  RowsOf<const T> r, k, v, low, v_first;
  const T* up[4];
  const T* up_bias[4];
  int rank[4], first_pack[5], first_low[4];  // packs of a matrix begin at first_pack, its columns of `low` at first_low
  bool vector[4];
  const T *k_k, *k_a, *r_k, *norm_weight, *norm_bias;
  float* state;
  RowsOf<T> out;
  const int32_t *slots, *starts;  // starts: none where every sequence has one token
  int first_token, heads, width;
  float key_eps, norm_eps;
};

template <class T>
__device__ __forceinline__ float rounded(float x) {
  return to_float(from_float<T>(x));
}
__device__ __forceinline__ float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }

// The rows of the low-rank matrices of a head, each matrix padded to whole packs, into [channel][pack].
template <class T>
__device__ __forceinline__ void copy_low_rank(const HeadsCall<T>& c, int first, T* to) {
  const int packs = c.first_pack[4];
  for (int item = threadIdx.x; item < c.width * packs; item += kHeadThreads) {
    const int channel = item / packs, p = item % packs;
    const int m = (p >= c.first_pack[1]) + (p >= c.first_pack[2]) + (p >= c.first_pack[3]);
    const int at = (p - c.first_pack[m]) * kLowPack;
    const T* row = c.up[m] + static_cast<int64_t>(first + channel) * c.rank[m];
    T* pack = to + item * kLowPack;
    if (c.vector[m]) {
      copy_async(static_cast<uint32_t>(__cvta_generic_to_shared(pack)), row + at, true);
    } else {
      for (int i = 0; i < kLowPack; ++i) pack[i] = at + i < c.rank[m] ? row[at + i] : from_float<T>(0.0f);
    }
  }
  commit_copies();
}

template <class T>
__global__ void __launch_bounds__(kHeadThreads, 2) rwkv7_heads(const __grid_constant__ HeadsCall<T> c) {
  extern __shared__ __align__(16) unsigned char heads_shared[];
  T* up = reinterpret_cast<T*>(heads_shared);
  __shared__ __align__(16) float low[kMostLowPacks * kLowPack];
  __shared__ float decay[kHeadWidth], key[kHeadWidth], taken[kHeadWidth], added[kHeadWidth], query[kHeadWidth];
  __shared__ __align__(16) float value[kHeadWidth], head_out[kHeadWidth];
  __shared__ float sums[kHeadWarps][kSums * kColumnGroups], totals[kSums * kColumnGroups];
  __shared__ float2 pairs[kHeadWarps];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int channel = tid / kChannelThreads, part = tid % kChannelThreads;
  const int h = blockIdx.x, s = blockIdx.y, first = h * c.width, at = first + channel;
  const bool inside = channel < c.width;

  copy_low_rank(c, first, up);
  float bias[4], k_k = 0, k_a = 0, r_k = 0, norm_weight = 0, norm_bias = 0;
#pragma unroll
  for (int m = 0; m < 4; ++m) bias[m] = inside && c.up_bias[m] != nullptr ? to_float(c.up_bias[m][at]) : 0.0f;
  if (inside) {
    k_k = to_float(c.k_k[at]);
    k_a = to_float(c.k_a[at]);
    r_k = to_float(c.r_k[at]);
    norm_weight = to_float(c.norm_weight[at]);
    if (c.norm_bias != nullptr) norm_bias = to_float(c.norm_bias[at]);
  }
  let_next_start();
  wait_for_previous();

  const int slot = c.slots[s];
  const int begin = c.first_token + (c.starts != nullptr ? c.starts[s] : s);
  const int end = c.first_token + (c.starts != nullptr ? c.starts[s + 1] : s + 1);
  if (begin >= end) return;  // the whole block
  const int column = tid % kColumnGroups * 4, first_row = tid / kColumnGroups;
  const int64_t matrix = static_cast<int64_t>(c.width) * c.width;
  float* base = c.state + (static_cast<int64_t>(slot < 0 ? 0 : slot) * c.heads + h) * matrix;
  float4 S[kStateRows];
#pragma unroll
  for (int j = 0; j < kStateRows; ++j) {
    const int i = first_row + j * kRowGroups;
    S[j] = make_float4(0, 0, 0, 0);
    if (slot >= 0 && i < c.width && column < c.width)
      S[j] = *reinterpret_cast<const float4*>(base + i * c.width + column);
  }

  for (int t = begin; t < end; ++t) {
    const float k = inside ? to_float(c.k.row(t)[at]) : 0.0f, r = inside ? to_float(c.r.row(t)[at]) : 0.0f;
    float v = inside ? to_float(c.v.row(t)[at]) : 0.0f;
    const float earlier = inside && c.v_first.at != nullptr ? to_float(c.v_first.row(t)[at]) : 0.0f;
    for (int i = tid; i < c.first_pack[4] * kLowPack; i += kHeadThreads) {
      const int p = i / kLowPack;
      const int m = (p >= c.first_pack[1]) + (p >= c.first_pack[2]) + (p >= c.first_pack[3]);
      const int of_matrix = i - c.first_pack[m] * kLowPack;
      low[i] = of_matrix < c.rank[m] ? to_float(c.low.row(t)[c.first_low[m] + of_matrix]) : 0.0f;
    }
    wait_copies<0>();
    __syncthreads();
    float gate[4] = {};
    for (int p = part; p < c.first_pack[4]; p += kChannelThreads) {
      if (!inside) break;
      const auto elements = load_pack<T, kLowPack>(up + (channel * c.first_pack[4] + p) * kLowPack);
      const float4 *x = reinterpret_cast<const float4*>(low + p * kLowPack), x0 = x[0], x1 = x[1];
      float dot = to_float(elements.at[0]) * x0.x;
      dot = fmaf(to_float(elements.at[1]), x0.y, dot);
      dot = fmaf(to_float(elements.at[2]), x0.z, dot);
      dot = fmaf(to_float(elements.at[3]), x0.w, dot);
      dot = fmaf(to_float(elements.at[4]), x1.x, dot);
      dot = fmaf(to_float(elements.at[5]), x1.y, dot);
      dot = fmaf(to_float(elements.at[6]), x1.z, dot);
      dot = fmaf(to_float(elements.at[7]), x1.w, dot);
#pragma unroll
      for (int m = 0; m < 4; ++m)
        if (p >= c.first_pack[m] && p < c.first_pack[m + 1]) gate[m] += dot;
    }
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
      for (int step = 1; step < kChannelThreads; step *= 2) gate[m] += __shfl_xor_sync(kAllLanes, gate[m], step);
      gate[m] = rounded<T>(gate[m] + bias[m]);
    }
    const float rate = sigmoid_of(gate[1]);
    const float mixed_key = rounded<T>(k * (1.0f + (rate - 1.0f) * k_a));
    if (c.v_first.at != nullptr) v = rounded<T>(v + (earlier - v) * sigmoid_of(gate[3]));
    // Sums over the head: of the square of k k_k, and of what the token gives itself.
    float square = part == 0 ? k * k_k * (k * k_k) : 0.0f, own = part == 0 ? r * mixed_key * r_k : 0.0f;
    square = reduce_warp<Sum>(square);
    own = reduce_warp<Sum>(own);
    if (lane == 0) pairs[warp] = make_float2(square, own);
    __syncthreads();
    square = own = 0;
#pragma unroll
    for (int w = 0; w < kHeadWarps; ++w) {
      square += pairs[w].x;
      own += pairs[w].y;
    }
    const float unit = k * k_k * (1.0f / sqrtf(square + c.key_eps));
    if (part == 0) {
      decay[channel] = inside ? expf(kHeadDecayScale * sigmoid_of(gate[0])) : 0.0f;
      key[channel] = mixed_key;
      taken[channel] = rounded<T>(-unit);
      added[channel] = rounded<T>(unit * rate);
      query[channel] = r;
      value[channel] = v;
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
#pragma unroll
    for (int j = 0; j < kStateRows; ++j) {
      const int i = first_row + j * kRowGroups;
      const float b = added[i], x = key[i];
      S[j].x = fmaf(b, sum[0], fmaf(x, values.x, S[j].x));
      S[j].y = fmaf(b, sum[1], fmaf(x, values.y, S[j].y));
      S[j].z = fmaf(b, sum[2], fmaf(x, values.z, S[j].z));
      S[j].w = fmaf(b, sum[3], fmaf(x, values.w, S[j].w));
    }
    if (first_row == 0) {
      auto out_of = [&](int n, float of_value) {
        return rounded<T>(fmaf(sum[8], sum[n], fmaf(sum[9], of_value, sum[4 + n])));
      };
      *reinterpret_cast<float4*>(head_out + column) =
          make_float4(out_of(0, values.x), out_of(1, values.y), out_of(2, values.z), out_of(3, values.w));
    }
    __syncthreads();

    // The norm of the head, by every warp for itself.
    const bool low_half = lane < c.width, high_half = lane + 32 < c.width;
    const float o0 = low_half ? head_out[lane] : 0.0f, o1 = high_half ? head_out[lane + 32] : 0.0f;
    const float mean = reduce_warp<Sum>(o0 + o1) / static_cast<float>(c.width);
    const float away0 = low_half ? o0 - mean : 0.0f, away1 = high_half ? o1 - mean : 0.0f;
    const float variance = reduce_warp<Sum>(fmaf(away0, away0, away1 * away1)) / static_cast<float>(c.width);
    const float scale = 1.0f / sqrtf(variance + c.norm_eps);
    if (part == 0 && inside) {
      const float normed = (head_out[channel] - mean) * scale * norm_weight;
      const float o = rounded<T>(c.norm_bias != nullptr ? normed + norm_bias : normed);
      c.out.row(t)[at] = from_float<T>(fmaf(own, v, o) * gate[2]);
    }
    // The next token writes `low`, `pairs` and the channels only after barriers that follow all reads of them here.
  }

  if (slot < 0) return;
#pragma unroll
  for (int j = 0; j < kStateRows; ++j) {
    const int i = first_row + j * kRowGroups;
    if (i < c.width && column < c.width) *reinterpret_cast<float4*>(base + i * c.width + column) = S[j];
  }
}

int packs_of(int64_t rank) { return static_cast<int>((rank + kLowPack - 1) / kLowPack); }

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
    c.first_pack[m + 1] = c.first_pack[m] + packs_of(up.rank());
    first_low += c.rank[m];
    if (!up.weight) continue;
    c.up[m] = static_cast<const T*>(up.weight->data());
    c.vector[m] = rows_fit_packs(*up.weight);
    if (up.bias) c.up_bias[m] = static_cast<const T*>(up.bias->data());
  }
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
  static const bool allowed =
      (allow_shared_memory("rwkv7_heads", rwkv7_heads<T>, kMostLowPacks * kHeadWidth * kLowPack * sizeof(T)), true);
  (void)allowed;
  const size_t shared = static_cast<size_t>(c.width) * c.first_pack[4] * kLowPack * sizeof(T);
  launch("rwkv7_heads", rwkv7_heads<T>,
         dim3(static_cast<unsigned>(c.heads), static_cast<unsigned>(group.num_sequences)), kHeadThreads, shared, stream,
         c);
}

}  // namespace

std::string_view refuse_rwkv7_heads(const Rwkv7Heads& call, int64_t head_dim) {
  if (head_dim > kHeadWidth || head_dim % 4 != 0) return "heads have at most 64 channels, a multiple of 4";
  int packs = 0;
  for (const LowRankUp& up : call.up) packs += packs_of(up.rank());
  if (packs > kMostLowPacks) return "the low-rank matrices together have a rank of at most 640";
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
