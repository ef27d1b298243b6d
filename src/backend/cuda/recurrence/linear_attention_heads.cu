// A block keeps 16 columns of a head's state in registers and goes through the tokens of its sequence, as step.cu does,
// with few columns, since few sequences leave most of the device idle otherwise. The blocks of a head repeat the
// preparation of its rows. Results are rounded where kernels of their own would store them.
#include "backend/cuda/recurrence/linear_attention_heads.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/map_rows.cuh"
#include "backend/cuda/l1/rotary_angles.cuh"

namespace fk::cuda {
namespace {

constexpr int kLinearThreads = 256, kLinearWarps = kLinearThreads / 32;
constexpr int kLinearColumns = 16;
constexpr int kLinearColumnThreads = kLinearColumns / 4;                  // each has 4 neighbouring columns
constexpr int kLinearRowThreads = kLinearThreads / kLinearColumnThreads;  // each has every 64th row
constexpr int kMostLinearKeys = 512;

template <class T>
struct LinearHeadsCall {
  RowsOf<const T> q, k, v, low;
  const T *up, *up_bias;
  int rank;
  bool vector;  // rows of `up` can be read in packs
  float factor, least;
  RowsOf<const int64_t> positions;
  float* state;
  const T* norm_weight;
  RowsOf<const T> gate;
  RowsOf<float> out, squares;
  const int32_t *slots, *starts;  // starts: none where every sequence has one token
  int first_token, H, k_heads, v_heads, K, V, first_head;
  float scale;
};

template <class T>
__device__ __forceinline__ float low_rank_sum(const T* row, const T* low, int rank, bool vector) {
  float sum = 0;
  if (vector) {
    for (int e = 0; e < rank; e += kPackElements<T>) {
      const auto a = load_pack<T, kPackElements<T>>(row + e), b = load_pack<T, kPackElements<T>>(low + e);
#pragma unroll
      for (int i = 0; i < kPackElements<T>; ++i) sum = fmaf(to_float(a.at[i]), to_float(b.at[i]), sum);
    }
  } else {
    for (int e = 0; e < rank; ++e) sum = fmaf(to_float(row[e]), to_float(low[e]), sum);
  }
  return sum;
}

template <class T, bool kRetention, int kRows>
__global__ void __launch_bounds__(kLinearThreads)
    linear_attention_heads(const __grid_constant__ LinearHeadsCall<T> c,
                           const __grid_constant__ RotaryFrequencies frequencies) {
  __shared__ float query[kMostLinearKeys], key[kMostLinearKeys], decay[kMostLinearKeys];
  __shared__ __align__(16) float scratch[kLinearWarps][kLinearColumns];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int s = blockIdx.z, h = blockIdx.y, k_head = h * c.k_heads / c.H, v_head = h * c.v_heads / c.H;
  const int column = blockIdx.x * kLinearColumns + tid % kLinearColumnThreads * 4;
  const int first_row = tid / kLinearColumnThreads;
  const T* up = c.up + static_cast<int64_t>(k_head) * c.K * c.rank;
  if constexpr (!kRetention) {
    for (int i = tid; i < c.K; i += kLinearThreads)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(up + static_cast<int64_t>(i) * c.rank));
  }
  let_next_start();
  wait_for_previous();

  const int slot = c.slots[s];
  const int begin = c.first_token + (c.starts != nullptr ? c.starts[s] : s);
  const int end = c.first_token + (c.starts != nullptr ? c.starts[s + 1] : s + 1);
  if (begin >= end) return;  // the whole block
  float* base = c.state + (static_cast<int64_t>(slot < 0 ? 0 : slot) * c.H + h) * c.K * c.V + column;
  float4 S[kRows];
  auto load_state = [&] {
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      const int i = first_row + j * kLinearRowThreads;
      S[j] = make_float4(0, 0, 0, 0);
      if (slot >= 0 && i < c.K && column < c.V)
        S[j] = __ldcs(reinterpret_cast<const float4*>(base + static_cast<int64_t>(i) * c.V));
    }
  };

  for (int t = begin; t < end; ++t) {
    const T *q = c.q.row(t) + h * c.K, *k = c.k.row(t) + k_head * c.K;
    float4 value = make_float4(0, 0, 0, 0);
    if (column < c.V) {
      const T* v = c.v.row(t) + v_head * c.V + column;
      value = make_float4(to_float(v[0]), to_float(v[1]), to_float(v[2]), to_float(v[3]));
    }
    // Rows of this thread: a pair that is rotated, or every 256th. They are loaded before the state, whose address has
    // to be loaded first, and computed while the state is on its way.
    static_assert(kMostLinearKeys == 2 * kLinearThreads);
    const int rows[2] = {tid, kRetention ? tid + c.K / 2 : tid + kLinearThreads};
    const bool has[2] = {kRetention ? tid < c.K / 2 : rows[0] < c.K, kRetention ? tid < c.K / 2 : rows[1] < c.K};
    float of_query[2], of_key[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      of_query[j] = has[j] ? to_float(q[rows[j]]) : 0.0f;
      of_key[j] = has[j] ? to_float(k[rows[j]]) : 0.0f;
    }
    int64_t position = 0;
    if constexpr (kRetention) position = *c.positions.row(t);
    // The first lanes have a column of the result.
    const int in_head = blockIdx.x * kLinearColumns + tid;
    const bool has_result = tid < kLinearColumns && in_head < c.V;
    const float weight = has_result ? to_float(c.norm_weight[in_head]) : 0.0f;
    const float gate = has_result && c.gate.at != nullptr ? to_float(c.gate.row(t)[h * c.V + in_head]) : 0.0f;
    if (t == begin) load_state();
    if constexpr (kRetention) {
      if (has[0]) {
        const float kept = expf(log1pf(-exp2f(-5.0f - static_cast<float>(c.first_head + h))));
        const SinCos turn = sin_cos(static_cast<double>(position) * frequencies.at[tid]);
        const float cosine = turn.cos * frequencies.factor, sine = turn.sin * frequencies.factor;
        auto rotate = [&](const float(&x)[2], float* to, float scale) {
          to[rows[0]] = to_float(from_float<T>(x[0] * cosine - x[1] * sine)) * scale;
          to[rows[1]] = to_float(from_float<T>(x[1] * cosine + x[0] * sine)) * scale;
        };
        rotate(of_query, query, c.scale);
        rotate(of_key, key, 1.0f);
        decay[rows[0]] = decay[rows[1]] = kept;
      }
    } else {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int i = rows[j];
        if (!has[j]) continue;
        query[i] = of_query[j] * c.scale;
        key[i] = of_key[j];
        float x = low_rank_sum(up + static_cast<int64_t>(i) * c.rank, c.low.row(t), c.rank, c.vector);
        x = to_float(from_float<T>(x + to_float(c.up_bias[k_head * c.K + i])));
        const float y = ((x < 0 ? x : 0.0f) - log1pf(expf(-fabsf(x)))) * c.factor;
        decay[i] = expf(y < c.least ? c.least : y);
      }
    }
    __syncthreads();
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      const int i = first_row + j * kLinearRowThreads;
      if (i >= c.K) continue;
      const float d = decay[i], x = key[i], y = query[i];
      S[j].x = fmaf(x, value.x, d * S[j].x);
      S[j].y = fmaf(x, value.y, d * S[j].y);
      S[j].z = fmaf(x, value.z, d * S[j].z);
      S[j].w = fmaf(x, value.w, d * S[j].w);
      sum.x = fmaf(y, S[j].x, sum.x);
      sum.y = fmaf(y, S[j].y, sum.y);
      sum.z = fmaf(y, S[j].z, sum.z);
      sum.w = fmaf(y, S[j].w, sum.w);
    }
#pragma unroll
    for (int step = kLinearColumnThreads; step < 32; step *= 2) {
      sum.x += __shfl_xor_sync(kAllLanes, sum.x, step);
      sum.y += __shfl_xor_sync(kAllLanes, sum.y, step);
      sum.z += __shfl_xor_sync(kAllLanes, sum.z, step);
      sum.w += __shfl_xor_sync(kAllLanes, sum.w, step);
    }
    if (lane < kLinearColumnThreads) *reinterpret_cast<float4*>(&scratch[warp][4 * lane]) = sum;
    __syncthreads();
    // The next token writes the scratch after another barrier.
    if (warp == 0) {
      float total = 0;
      if (has_result) {
#pragma unroll
        for (int w = 0; w < kLinearWarps; ++w) total += scratch[w][lane];
        total = to_float(from_float<T>(total));
      }
      const float square = reduce_warp<Sum>(total * total);
      if (lane == 0) c.squares.row(t)[h * gridDim.x + blockIdx.x] = square;
      if (has_result) {
        const float y = total * weight;
        c.out.row(t)[h * c.V + in_head] = c.gate.at != nullptr ? y * (gate / (1.0f + expf(-gate))) : y;
      }
    }
  }

  if (slot < 0) return;
#pragma unroll
  for (int j = 0; j < kRows; ++j) {
    const int i = first_row + j * kLinearRowThreads;
    if (i < c.K && column < c.V) __stcs(reinterpret_cast<float4*>(base + static_cast<int64_t>(i) * c.V), S[j]);
  }
}

template <class T, bool kRetention>
void start_linear_heads(const LinearAttentionHeads& given, const SequenceGroup& group, int64_t first_token,
                        bool decoding, void* stream) {
  LinearHeadsCall<T> c{};
  c.H = static_cast<int>(given.heads());
  c.K = static_cast<int>(given.state.size(2));
  c.V = static_cast<int>(given.state.size(3));
  c.q = rows_of<const T>(given.q);
  c.k = rows_of<const T>(given.k);
  c.v = rows_of<const T>(given.v);
  c.k_heads = static_cast<int>(given.k.size(1)) / c.K;
  c.v_heads = static_cast<int>(given.v.size(1)) / c.V;
  if constexpr (kRetention) {
    c.positions = rows_of<const int64_t>(*given.positions);
    c.first_head = static_cast<int>(given.first_head);
  } else {
    c.low = rows_of<const T>(*given.low);
    c.up = static_cast<const T*>(given.up->data());
    c.up_bias = static_cast<const T*>(given.up_bias->data());
    c.rank = static_cast<int>(given.up->size(1));
    c.vector = rows_fit_packs(*given.up) && rows_fit_packs(*given.low);
    c.factor = static_cast<float>(given.factor);
    c.least = static_cast<float>(given.least);
  }
  c.state = static_cast<float*>(given.state.data());
  c.norm_weight = static_cast<const T*>(given.norm_weight.data());
  if (given.gate) c.gate = rows_of<const T>(*given.gate);
  c.out = rows_of<float>(given.out);
  c.squares = rows_of<float>(given.squares);
  c.slots = static_cast<const int32_t*>(group.state_slots.data());
  if (!decoding) c.starts = static_cast<const int32_t*>(group.cu_seqlens_q.data());
  c.first_token = static_cast<int>(first_token);
  c.scale = static_cast<float>(given.scale);
  static const RotaryFrequencies kNoFrequencies{};
  const dim3 grid(blocks_for(c.V, kLinearColumns), static_cast<unsigned>(c.H),
                  static_cast<unsigned>(group.num_sequences));
  auto start = [&](auto* kernel) {
    launch("linear_attention_heads", kernel, grid, dim3(kLinearThreads), 0, stream, c,
           kRetention ? *given.frequencies : kNoFrequencies);
  };
  if (c.K <= kLinearRowThreads)
    start(linear_attention_heads<T, kRetention, 1>);
  else if (c.K <= 2 * kLinearRowThreads)
    start(linear_attention_heads<T, kRetention, 2>);
  else if (c.K <= 4 * kLinearRowThreads)
    start(linear_attention_heads<T, kRetention, 4>);
  else
    start(linear_attention_heads<T, kRetention, 8>);
}

}  // namespace

int64_t linear_attention_parts(int64_t head_v_dim) { return blocks_for(head_v_dim, kLinearColumns); }

std::string_view refuse_linear_attention_heads(int64_t head_k_dim, int64_t head_v_dim) {
  if (head_k_dim > kMostLinearKeys) return "heads may have at most 512 keys";
  if (head_v_dim % 4 != 0) return "heads must have a multiple of 4 values";
  return {};
}

void run_linear_attention_heads(const LinearAttentionHeads& call, const AttentionMetadata& batch, void* stream) {
  auto typed = [&]<class T, bool kRetention>() {
    if (batch.decode.num_tokens > 0) start_linear_heads<T, kRetention>(call, batch.decode, 0, true, stream);
    if (batch.prefill.num_tokens > 0)
      start_linear_heads<T, kRetention>(call, batch.prefill, batch.decode.num_tokens, false, stream);
  };
  const bool retention = call.positions.has_value();
  if (call.q.dtype() == DType::kBF16)
    retention ? typed.template operator()<__nv_bfloat16, true>() : typed.template operator()<__nv_bfloat16, false>();
  else
    retention ? typed.template operator()<__half, true>() : typed.template operator()<__half, false>();
}

}  // namespace fk::cuda
