#include "backend/cuda/l2/rope_store.h"

#include <algorithm>

#include "backend/cuda/attention/decode_shares.h"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/packs.cuh"
#include "backend/cuda/l1/rotary_angles.cuh"

namespace fk::cuda {
namespace {

// So few registers that a block fits on a multiprocessor beside blocks of the previous product, and can wait there.
constexpr unsigned kMaxThreads = 256;

template <class T>
struct Call {
  T* qkv;
  T* q_out;  // may be qkv
  const T* q_norm;
  const T* k_norm;
  T* key_cache;
  T* value_cache;
  const int64_t* positions;
  const int64_t* slots;
  int64_t qkv_stride, q_out_stride, position_stride, slot_stride, num_slots;
  unsigned num_heads, num_kv_heads, head_size;
  unsigned q_head, q_out_head;  // elements from query to query
  float eps, weight_offset;
  bool values_are_keys, value_norm;
};

// A block per token, or several with some of the heads each; `lanes` threads per head, a power of two within a warp. A
// thread holds packs of half of the head, first those that are rotated, and for each a partner of the other half.
template <class T, int N, int kPacks>
__global__ void __launch_bounds__(kMaxThreads)
    rope_store_token(const __grid_constant__ Call<T> call, const __grid_constant__ RotaryFrequencies frequencies,
                     unsigned lanes) {
  __shared__ TokenAngles angles;
  // Attention of many sequences reads the rest of the cache while this kernel runs (AttentionCall::cache_settled), so
  // it must not start before earlier kernels have ended.
  const bool late = gridDim.x >= kFewestShared;
  if (!late) let_next_start();
  const unsigned group = threadIdx.x / lanes, groups = blockDim.x / lanes, lane = threadIdx.x % lanes;
  const unsigned half = call.head_size / 2, pairs = static_cast<unsigned>(frequencies.pairs);
  // Where the packs of place `at` are in a head: partners, or of the two halves of what is not rotated.
  auto low_at = [&](unsigned at) { return at < pairs ? at : at + pairs; };
  auto high_at = [&](unsigned at) { return at < pairs ? at + pairs : at + half; };
  const unsigned heads = call.num_heads + 2 * call.num_kv_heads;
  const int64_t token = blockIdx.x;
  T* row = call.qkv + token * call.qkv_stride;
  Pack<T, N> low[kPacks], high[kPacks];
  auto load = [&](unsigned head) {
    const unsigned of =
        call.values_are_keys && head >= call.num_heads + call.num_kv_heads ? head - call.num_kv_heads : head;
    const T* from = row + (of < call.num_heads ? of * call.q_head
                                               : call.num_heads * call.q_head + (of - call.num_heads) * call.head_size);
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const unsigned at = (lane + j * lanes) * N;
      if (head >= heads || at >= half) continue;
      low[j] = load_pack<T, N>(from + low_at(at));
      high[j] = load_pack<T, N>(from + high_at(at));
    }
  };
  Pack<T, N> low_norm[kPacks], high_norm[kPacks];
  auto norm_of = [&](unsigned head) {
    return head < call.num_heads ? call.q_norm : head < call.num_heads + call.num_kv_heads ? call.k_norm : nullptr;
  };
  auto load_norm = [&](const T* norm) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const unsigned at = (lane + j * lanes) * N;
      if (norm == nullptr || at >= half) continue;
      low_norm[j] = load_pack<T, N>(norm + low_at(at));
      high_norm[j] = load_pack<T, N>(norm + high_at(at));
    }
  };
  const unsigned first_head = blockIdx.y * groups;
  load_norm(norm_of(first_head + group));
  wait_for_previous();
  if (late) let_next_start();
  load(first_head + group);
  const int64_t slot = call.slots[token * call.slot_stride];
  const bool stored = slot >= 0 && slot < call.num_slots;
  angles.compute(frequencies, call.positions[token * call.position_stride]);
  __syncthreads();

  // All lanes of a warp make the same number of rounds, because the sums need all lanes.
  for (unsigned first = first_head; first < heads; first += groups * gridDim.y) {
    const unsigned head = first + group;
    const T* norm = norm_of(head);
    if (first > first_head) {
      load_norm(norm);
      load(head);
    }
    const bool is_query = head < call.num_heads, is_value = head >= call.num_heads + call.num_kv_heads;
    float squares = 0;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (head >= heads || (lane + j * lanes) * N >= half) continue;
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float x = to_float(low[j].at[k]), y = to_float(high[j].at[k]);
        squares = fmaf(x, x, fmaf(y, y, squares));
      }
    }
    for (unsigned step = lanes / 2; step > 0; step /= 2)
      squares += __shfl_xor_sync(kAllLanes, squares, static_cast<int>(step));
    if (head >= heads || (!is_query && !stored)) continue;
    const float scale = 1.0f / sqrtf(squares / static_cast<float>(call.head_size) + call.eps);

    const unsigned kv_head = is_query ? 0 : (head - call.num_heads) % call.num_kv_heads;
    T* to = is_query ? call.q_out + token * call.q_out_stride + head * call.q_out_head
                     : (is_value ? call.value_cache : call.key_cache) +
                           (slot * call.num_kv_heads + kv_head) * call.head_size;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const unsigned at = (lane + j * lanes) * N;
      if (at >= half) continue;
      if (is_value && call.value_norm) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
          low[j].at[k] = from_float<T>(to_float(low[j].at[k]) * scale);
          high[j].at[k] = from_float<T>(to_float(high[j].at[k]) * scale);
        }
      }
      if (norm != nullptr) {
        const Pack<T, N>&w = low_norm[j], &v = high_norm[j];
#pragma unroll
        for (int k = 0; k < N; ++k) {
          low[j].at[k] = from_float<T>(to_float(low[j].at[k]) * scale * (to_float(w.at[k]) + call.weight_offset));
          high[j].at[k] = from_float<T>(to_float(high[j].at[k]) * scale * (to_float(v.at[k]) + call.weight_offset));
        }
      }
      if (!is_value && at < pairs) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
          const float x = to_float(low[j].at[k]), y = to_float(high[j].at[k]);
          const float c = angles.cos[at + k], s = angles.sin[at + k];
          low[j].at[k] = from_float<T>(x * c - y * s);
          high[j].at[k] = from_float<T>(y * c + x * s);
        }
      }
      store_pack<T, N>(to + low_at(at), low[j]);
      store_pack<T, N>(to + high_at(at), high[j]);
    }
  }
}

bool dense_from(const View& v, const View& qkv) { return v.dtype() == qkv.dtype() && v.contiguous(); }

}  // namespace

std::string_view rope_store_refusal(const RopeStoreArgs& a) {
  DType dtype = a.qkv.dtype();
  if (dtype != DType::kBF16 && dtype != DType::kF16 && dtype != DType::kF32)
    return "it computes in bf16, f16 and f32 only";
  if (a.head_size % 2 != 0 || a.head_size > kMaxRopeStoreHead || a.frequencies.pairs == 0 ||
      a.head_size < 2 * a.frequencies.pairs)
    return "it rotates heads of an even number of elements, at most 512 elements";
  if (a.qkv.size(1) !=
      ((a.query_gates ? 2 : 1) * a.num_heads + (a.values_are_keys ? 1 : 2) * a.num_kv_heads) * a.head_size)
    return "a row must hold queries, keys and values";
  if (!a.qkv.rows_contiguous() || (a.q_out && (!a.q_out->rows_contiguous() || a.q_out->dtype() != dtype)))
    return "rows must be contiguous, and queries of the dtype they had";
  if (!dense_from(a.key_cache, a.qkv) || !dense_from(a.value_cache, a.qkv))
    return "the caches must be contiguous and of the dtype of the keys";
  if ((a.q_norm && !dense_from(*a.q_norm, a.qkv)) || (a.k_norm && !dense_from(*a.k_norm, a.qkv)))
    return "the norms' weights must have the dtype of what they scale";
  if (a.positions.dtype() != DType::kI64 || a.slot_mapping.dtype() != DType::kI64)
    return "positions and slot_mapping must be i64";
  return {};
}

void rope_store(const RopeStoreArgs& a, void* stream) {
  auto size = static_cast<int64_t>(dtype_size(a.qkv.dtype()));
  bool packs = a.head_size / 2 * size % 16 == 0 && a.frequencies.pairs * size % 16 == 0 && rows_fit_packs(a.qkv) &&
               rows_fit_packs(a.q_out) && rows_fit_packs(a.q_norm) && rows_fit_packs(a.k_norm) &&
               rows_fit_packs(a.key_cache) && rows_fit_packs(a.value_cache);
  with_packs(a.qkv.dtype(), packs, [&](auto type, auto n) {
    using T = typename decltype(type)::type;
    constexpr int N = decltype(n)::value;
    const View& q_out = a.q_out ? *a.q_out : a.qkv;
    Call<T> call{.qkv = static_cast<T*>(a.qkv.data()),
                 .q_out = static_cast<T*>(q_out.data()),
                 .q_norm = a.q_norm ? static_cast<const T*>(a.q_norm->data()) : nullptr,
                 .k_norm = a.k_norm ? static_cast<const T*>(a.k_norm->data()) : nullptr,
                 .key_cache = static_cast<T*>(a.key_cache.data()),
                 .value_cache = static_cast<T*>(a.value_cache.data()),
                 .positions = a.positions.ptr<int64_t>(),
                 .slots = a.slot_mapping.ptr<int64_t>(),
                 .qkv_stride = a.qkv.stride(0),
                 .q_out_stride = q_out.stride(0),
                 .position_stride = a.positions.stride(0),
                 .slot_stride = a.slot_mapping.stride(0),
                 .num_slots = a.key_cache.size(0) * a.key_cache.size(1),
                 .num_heads = static_cast<unsigned>(a.num_heads),
                 .num_kv_heads = static_cast<unsigned>(a.num_kv_heads),
                 .head_size = static_cast<unsigned>(a.head_size),
                 .q_head = static_cast<unsigned>(a.head_size * (a.query_gates ? 2 : 1)),
                 .q_out_head = static_cast<unsigned>(a.head_size * (a.query_gates && !a.q_out ? 2 : 1)),
                 .eps = static_cast<float>(a.eps),
                 .weight_offset = static_cast<float>(a.weight_offset),
                 .values_are_keys = a.values_are_keys,
                 .value_norm = a.value_norm};
    const unsigned in_half = call.head_size / 2 / N, heads = call.num_heads + 2 * call.num_kv_heads;
    unsigned lanes = 1;
    while (lanes < in_half && lanes < 32) lanes *= 2;
    const unsigned threads = std::min(kMaxThreads, (heads * lanes + 31) / 32 * 32);
    // The heads of few tokens are divided over blocks.
    constexpr int64_t kFewTokens = 8;
    const unsigned tokens = static_cast<unsigned>(a.qkv.size(0)),
                   pieces = tokens <= kFewTokens ? blocks_for(heads, threads / lanes) : 1;
    auto start = [&](auto kernel) {
      launch("rope_store", kernel, dim3(tokens, pieces), threads, 0, stream, call, a.frequencies, lanes);
    };
    if (in_half <= lanes)
      start(rope_store_token<T, N, 1>);
    else if (in_half <= 2 * lanes)
      start(rope_store_token<T, N, 2>);
    else if (in_half <= 4 * lanes)
      start(rope_store_token<T, N, 4>);
    else if constexpr (N == 1)
      start(rope_store_token<T, N, 8>);  // 256 pairs at most
  });
}

}  // namespace fk::cuda
