// A block for each head of values of a sequence: the convolution of its channels, the norms of query and key, the
// gates, the recurrence, the gated norm. Heads of values that share a query and a key are a cluster: all of them
// convolve the two, and the first stores their window when every block has read the old one. Results are rounded where
// kernels of their own would store them.
//
// With u = beta (v - decay k^T S) the state becomes decay S + k u^T, and its product with q is decay q^T S + (q k) u:
// one pass over S gives what both need.
#include "backend/cuda/recurrence/delta_net_heads.h"

#include "backend/cuda/device/cluster.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/map_rows.cuh"

namespace fk::cuda {
namespace {

constexpr int kNetThreads = 512, kNetWarps = kNetThreads / 32;
constexpr int kNetHead = 128;                   // elements of a query, and of a value, at most
constexpr int kNetRows = kNetHead / kNetWarps;  // of the state that a thread has, each kNetWarps apart; 4 columns
constexpr int kNetChannels = 3 * kNetHead;      // of a query, a key and a value: one for each thread
constexpr int kNetWidth = 4;                    // tokens that the convolution sees, at most
static_assert(kNetChannels <= kNetThreads);

template <class T>
struct NetCall {
  RowsOf<const T> qkvz, ba;
  const T *conv_weight, *a_log, *dt_bias, *norm_weight;
  float* state;
  T* conv_state;
  int64_t conv_stride;  // from slot to slot
  RowsOf<T> out;
  const int32_t *slots, *starts;  // starts: none where every sequence has one token
  int first_token, heads, shared, keys, K, V, width;
  float scale, key_eps, norm_eps;
};

template <class T>
__device__ __forceinline__ float net_rounded(float x) {
  return to_float(from_float<T>(x));
}

template <class T>
__global__ void __launch_bounds__(kNetThreads, 1) delta_net_heads(const __grid_constant__ NetCall<T> c) {
  __shared__ float query[kNetHead], key[kNetHead];
  __shared__ __align__(16) float value[kNetHead], change[kNetHead];  // change: u of the columns
  __shared__ __align__(16) float sums[2][kNetWarps][kNetHead];
  __shared__ float of_warps[2][kNetWarps];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int head = blockIdx.x, of_group = head % c.shared, s = blockIdx.y;
  const int K = c.K, V = c.V, values = c.shared * V;  // values: elements of all heads that share a query

  // The channel of this thread: where it is in a row of qkvz, and in the convolution. K and V are whole warps.
  const int group = head / c.shared, row_of_group = group * 2 * (K + values);
  const bool is_query = tid < K, is_key = !is_query && tid < 2 * K, is_value = tid >= 2 * K && tid < 2 * K + V;
  const bool has_channel = tid < 2 * K + V;
  int from = row_of_group + tid, channel = group * K + tid;
  if (is_key) channel = c.keys + group * K + tid - K;
  if (is_value) {
    from = row_of_group + 2 * K + of_group * V + tid - 2 * K;
    channel = 2 * c.keys + head * V + tid - 2 * K;
  }
  float weight[kNetWidth] = {};  // the newest token's last
  if (has_channel) {
#pragma unroll
    for (int i = 0; i < kNetWidth; ++i) {
      const int k = i - (kNetWidth - c.width);
      if (k >= 0) weight[i] = to_float(c.conv_weight[static_cast<int64_t>(channel) * c.width + k]);
    }
  }
  const float decay_rate = -expf(to_float(c.a_log[head])), dt_bias = to_float(c.dt_bias[head]);
  const float norm_weight = tid < V ? to_float(c.norm_weight[tid]) : 0.0f;
  let_next_start();
  wait_for_previous();

  const int begin = c.first_token + (c.starts != nullptr ? c.starts[s] : s);
  const int end = c.first_token + (c.starts != nullptr ? c.starts[s + 1] : s + 1);
  if (begin >= end) return;  // all blocks of the cluster
  const int slot = c.slots[s];
  const int64_t conv_channels = 2 * static_cast<int64_t>(c.keys) + c.heads * V;
  T* window = c.conv_state + (slot < 0 ? 0 : slot) * c.conv_stride + channel;
  float seen[kNetWidth] = {};  // tokens, the newest last
#pragma unroll
  for (int i = 1; i < kNetWidth; ++i) {
    const int k = i - 1 - (kNetWidth - c.width);
    if (has_channel && slot >= 0 && k >= 0) seen[i] = to_float(window[k * conv_channels]);
  }
  arrive_at_cluster();
  const int column = 4 * lane;
  float* base = c.state + (static_cast<int64_t>(slot < 0 ? 0 : slot) * c.heads + head) * K * V;
  float4 S[kNetRows];
#pragma unroll
  for (int j = 0; j < kNetRows; ++j) {
    const int i = warp + j * kNetWarps;
    S[j] = make_float4(0, 0, 0, 0);
    if (slot >= 0 && i < K && column < V) S[j] = __ldcs(reinterpret_cast<const float4*>(base + i * V + column));
  }

  for (int t = begin; t < end; ++t) {
    const T* row = c.qkvz.row(t);
    const T* gates = c.ba.row(t) + group * 2 * c.shared + of_group;
    const float a = to_float(gates[c.shared]) + dt_bias;
    const float decay = expf(decay_rate * (fmaxf(a, 0.0f) + log1pf(expf(-fabsf(a)))));
    const float beta = 1.0f / (1.0f + expf(-to_float(gates[0])));
    const float gate = tid < V ? to_float(row[row_of_group + 2 * K + values + of_group * V + tid]) : 0.0f;

    float x = 0;
    if (has_channel) {
#pragma unroll
      for (int i = 0; i + 1 < kNetWidth; ++i) seen[i] = seen[i + 1];
      seen[kNetWidth - 1] = to_float(row[from]);
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kNetWidth; ++i) sum = fmaf(weight[i], seen[i], sum);
      x = net_rounded<T>(sum / (1.0f + expf(-sum)));
    }
    if (is_value) value[tid - 2 * K] = x;
    const float squares = reduce_warp<Sum>(x * x);
    if (lane == 0) of_warps[0][warp] = squares;
    __syncthreads();
    if (tid < 2 * K) {
      float all = 0;
      for (int w = 0; w < K / 32; ++w) all += of_warps[0][(is_key ? K / 32 : 0) + w];
      x = net_rounded<T>(x * (1.0f / sqrtf(all + c.key_eps)));
      if (is_query)
        query[tid] = x * c.scale;
      else
        key[tid - K] = x;
    }
    __syncthreads();

    float with_key[4] = {}, with_query[4] = {}, both = 0;  // k^T S, q^T S, q k
#pragma unroll
    for (int j = 0; j < kNetRows; ++j) {
      const int i = warp + j * kNetWarps;
      if (i >= K) continue;
      const float k = key[i], q = query[i];
      with_key[0] = fmaf(k, S[j].x, with_key[0]);
      with_key[1] = fmaf(k, S[j].y, with_key[1]);
      with_key[2] = fmaf(k, S[j].z, with_key[2]);
      with_key[3] = fmaf(k, S[j].w, with_key[3]);
      with_query[0] = fmaf(q, S[j].x, with_query[0]);
      with_query[1] = fmaf(q, S[j].y, with_query[1]);
      with_query[2] = fmaf(q, S[j].z, with_query[2]);
      with_query[3] = fmaf(q, S[j].w, with_query[3]);
      both = fmaf(q, k, both);
    }
    *reinterpret_cast<float4*>(&sums[0][warp][column]) =
        make_float4(with_key[0], with_key[1], with_key[2], with_key[3]);
    *reinterpret_cast<float4*>(&sums[1][warp][column]) =
        make_float4(with_query[0], with_query[1], with_query[2], with_query[3]);
    if (lane == 0) of_warps[1][warp] = both;
    __syncthreads();
    float mixed = 0;
    if (tid < V) {
      float of_key = 0, of_query = 0, product = 0;
#pragma unroll
      for (int w = 0; w < kNetWarps; ++w) {
        of_key += sums[0][w][tid];
        of_query += sums[1][w][tid];
        product += of_warps[1][w];
      }
      const float u = beta * (value[tid] - decay * of_key);
      change[tid] = u;
      mixed = net_rounded<T>(fmaf(product, u, decay * of_query));
    }
    const float mixed_squares = reduce_warp<Sum>(mixed * mixed);
    if (lane == 0) of_warps[0][warp] = mixed_squares;
    __syncthreads();
    if (tid < V) {
      float all = 0;
      for (int w = 0; w < V / 32; ++w) all += of_warps[0][w];
      const float normed = mixed * (1.0f / sqrtf(all / static_cast<float>(V) + c.norm_eps)) * norm_weight;
      c.out.row(t)[head * V + tid] = from_float<T>(normed * (gate / (1.0f + expf(-gate))));
    }
    const float4 u = *reinterpret_cast<const float4*>(&change[column]);
#pragma unroll
    for (int j = 0; j < kNetRows; ++j) {
      const int i = warp + j * kNetWarps;
      if (i >= K) continue;
      const float k = key[i];
      S[j].x = fmaf(k, u.x, decay * S[j].x);
      S[j].y = fmaf(k, u.y, decay * S[j].y);
      S[j].z = fmaf(k, u.z, decay * S[j].z);
      S[j].w = fmaf(k, u.w, decay * S[j].w);
    }
    __syncthreads();  // before the next token overwrites what this one reads
  }

  wait_for_cluster();
  if (slot < 0) return;
#pragma unroll
  for (int j = 0; j < kNetRows; ++j) {
    const int i = warp + j * kNetWarps;
    if (i < K && column < V) __stcs(reinterpret_cast<float4*>(base + i * V + column), S[j]);
  }
  if (!is_value && (of_group != 0 || !has_channel)) return;
#pragma unroll
  for (int i = 1; i < kNetWidth; ++i) {
    const int k = i - 1 - (kNetWidth - c.width);
    if (k >= 0) window[k * conv_channels] = from_float<T>(seen[i]);
  }
}

template <class T>
void start_net(const DeltaNetHeads& given, const SequenceGroup& group, int64_t first_token, bool decoding,
               void* stream) {
  NetCall<T> c{};
  auto start = [](const View& v) { return static_cast<const T*>(v.data()); };
  c.qkvz = rows_of<const T>(given.qkvz);
  c.ba = rows_of<const T>(given.ba);
  c.conv_weight = start(given.conv_weight);
  c.a_log = start(given.a_log);
  c.dt_bias = start(given.dt_bias);
  c.norm_weight = start(given.norm_weight);
  c.state = static_cast<float*>(given.state.data());
  c.conv_state = static_cast<T*>(given.conv_state.data());
  c.conv_stride = given.conv_state.stride(0);
  c.out = rows_of<T>(given.out);
  c.slots = static_cast<const int32_t*>(group.state_slots.data());
  if (!decoding) c.starts = static_cast<const int32_t*>(group.cu_seqlens_q.data());
  c.first_token = static_cast<int>(first_token);
  c.heads = static_cast<int>(given.num_v_heads);
  c.shared = static_cast<int>(given.shared());
  c.keys = static_cast<int>(given.num_k_heads * given.head_k_dim);
  c.K = static_cast<int>(given.head_k_dim);
  c.V = static_cast<int>(given.head_v_dim);
  c.width = static_cast<int>(given.conv_weight.size(2));
  c.scale = 1.0f / sqrtf(static_cast<float>(c.K));
  c.key_eps = static_cast<float>(given.key_eps);
  c.norm_eps = static_cast<float>(given.norm_eps);
  launch("delta_net_heads", delta_net_heads<T>,
         {.grid = dim3(static_cast<unsigned>(c.heads), static_cast<unsigned>(group.num_sequences)),
          .block = dim3(kNetThreads),
          .cluster = static_cast<unsigned>(c.shared)},
         stream, c);
}

}  // namespace

std::string_view refuse_delta_net_heads(const DeltaNetHeads& call, int64_t conv_width) {
  constexpr int64_t kMostShared = 8;  // blocks of a cluster
  auto unfit = [](int64_t size) { return size > kNetHead || size % 32 != 0; };
  if (unfit(call.head_k_dim) || unfit(call.head_v_dim)) return "heads have at most 128 elements, a multiple of 32";
  if (conv_width > kNetWidth) return "its convolution sees at most 4 tokens";
  if (call.shared() > kMostShared || (call.shared() & (call.shared() - 1)) != 0)
    return "1, 2, 4 or 8 heads of values share a key";
  if (!has_hopper_launches()) return "it needs clusters of blocks (Hopper)";
  return {};
}

void run_delta_net_heads(const DeltaNetHeads& call, const AttentionMetadata& batch, void* stream) {
  auto typed = [&]<class T>() {
    if (batch.decode.num_tokens > 0) start_net<T>(call, batch.decode, 0, true, stream);
    if (batch.prefill.num_tokens > 0) start_net<T>(call, batch.prefill, batch.decode.num_tokens, false, stream);
  };
  if (call.qkvz.dtype() == DType::kBF16)
    typed.template operator()<__nv_bfloat16>();
  else
    typed.template operator()<__half>();
}

}  // namespace fk::cuda
