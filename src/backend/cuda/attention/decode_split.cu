// A block takes a piece of the keys of one kv head, for all query heads that share it; the last block of a sequence to
// finish joins the pieces.
//
// A key is read by head_size / 8 lanes, 16 bytes each, once for all query heads; a warp has several keys in flight.
#include "backend/cuda/attention/decode_split.h"

#include <algorithm>

#include "backend/cuda/attention/keys.cuh"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"

namespace fk::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kInFlight = 4;  // keys a lane group works on at once
constexpr int kMaxGroup = 8;
constexpr float kLog2E = 1.4426950408889634f;

// Softmax in the making over some keys: largest score (in powers of two), sum of weights; the weighted values beside it.
struct Running {
  float largest;
  float sum;
};

// What a and b seen together would be; scales for the values of each.
__device__ __forceinline__ Running join(Running a, Running b, float& scale_a, float& scale_b) {
  const float largest = fmaxf(a.largest, b.largest);
  const float safe = largest == -INFINITY ? 0.0f : largest;
  scale_a = exp2f(a.largest - safe);
  scale_b = exp2f(b.largest - safe);
  return {largest, a.sum * scale_a + b.sum * scale_b};
}

template <class T, int kHeadSize, int kGroup>
__global__ void __launch_bounds__(kThreads) decode_pieces(AttentionCall call, DecodeSplit split, float* scratch,
                                                          int32_t* arrivals) {
  constexpr int kLanes = kHeadSize / 8;         // of one key
  constexpr int kKeysPerWarp = 32 / kLanes;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = lane % kLanes, which = lane / kLanes;
  const int s = blockIdx.z, kv_head = blockIdx.y, piece = blockIdx.x;
  const int group = call.heads / call.kv_heads;
  let_next_start();
  wait_for_previous();

  const int length = call.seq_lens[s];
  const VisibleKeys keys = visible_keys(call, length - 1, length);
  const int begin = keys.first + piece * split.keys_per_split;
  const int end = min(keys.last, begin + split.keys_per_split);
  // Pieces that hold keys; the rest have nothing to do and nobody waits for them.
  const int pieces = max(1, (keys.last - keys.first + split.keys_per_split - 1) / split.keys_per_split);
  if (piece >= pieces) return;

  // Scores are kept in powers of two, so that exp2 serves. With a cap the factor comes after it.
  const float before = call.soft_cap > 0 ? call.scale : call.scale * kLog2E;
  float q[kGroup][8];
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    const int head = kv_head * group + min(g, group - 1);
    const T* row = static_cast<const T*>(call.q) + s * call.q_strides.token + head * call.q_strides.head + 8 * part;
    const auto pack = *reinterpret_cast<const Pack<T, 8>*>(row);
#pragma unroll
    for (int i = 0; i < 8; ++i) q[g][i] = to_float(pack.at[i]) * before;
  }

  Running running[kGroup];
  float mean[kGroup][8] = {};
#pragma unroll
  for (int g = 0; g < kGroup; ++g) running[g] = {-INFINITY, 0};

  constexpr int kStride = kWarps * kKeysPerWarp;
  for (int first = begin + warp * kKeysPerWarp + which; first - which < end; first += kInFlight * kStride) {
    Pack<T, 8> k[kInFlight], v[kInFlight];
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      const int j = first + u * kStride;
      k[u] = v[u] = {};
      if (j < end) {
        const int64_t row = key_row(call, s, j);
        k[u] = *reinterpret_cast<const Pack<T, 8>*>(static_cast<const T*>(call.k) + row * call.k_strides.token +
                                                    kv_head * call.k_strides.head + 8 * part);
        v[u] = *reinterpret_cast<const Pack<T, 8>*>(static_cast<const T*>(call.v) + row * call.v_strides.token +
                                                    kv_head * call.v_strides.head + 8 * part);
      }
    }
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      float score[kInFlight];
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) {
        float dot = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) dot += q[g][i] * to_float(k[u].at[i]);
#pragma unroll
        for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) dot += __shfl_xor_sync(kAllLanes, dot, lanes);
        if (call.soft_cap > 0) dot = capped(dot, call.soft_cap) * kLog2E;
        score[u] = first + u * kStride < end ? dot : -INFINITY;
      }
      float largest = running[g].largest;
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) largest = fmaxf(largest, score[u]);
      const float safe = largest == -INFINITY ? 0.0f : largest;
      const float shrink = exp2f(running[g].largest - safe);
      running[g].largest = largest;
      running[g].sum *= shrink;
#pragma unroll
      for (int i = 0; i < 8; ++i) mean[g][i] *= shrink;
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) {
        const float weight = exp2f(score[u] - safe);
        running[g].sum += weight;
#pragma unroll
        for (int i = 0; i < 8; ++i) mean[g][i] += weight * to_float(v[u].at[i]);
      }
    }
  }

  // Lanes of one warp that hold the same elements for different keys.
#pragma unroll
  for (int lanes = kLanes; lanes < 32; lanes *= 2) {
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      const Running other{__shfl_xor_sync(kAllLanes, running[g].largest, lanes),
                          __shfl_xor_sync(kAllLanes, running[g].sum, lanes)};
      float mine, theirs;
      running[g] = join(running[g], other, mine, theirs);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        mean[g][i] = mean[g][i] * mine + __shfl_xor_sync(kAllLanes, mean[g][i], lanes) * theirs;
    }
  }
  // Warps of the block.
  __shared__ float means[kWarps][kGroup][kHeadSize];
  __shared__ Running states[kWarps][kGroup];
  if (which == 0) {
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
#pragma unroll
      for (int i = 0; i < 8; ++i) means[warp][g][8 * part + i] = mean[g][i];
      if (part == 0) states[warp][g] = running[g];
    }
  }
  __syncthreads();

  // This block's piece of head g, element i: the value not yet divided by the sum.
  auto block_total = [&](int g, int i, Running& all) {
    all = states[0][g];
    float value = means[0][g][i];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) {
      float mine, theirs;
      all = join(all, states[w][g], mine, theirs);
      value = value * mine + means[w][g][i] * theirs;
    }
    return value;
  };
  auto store = [&](int g, int i, float value, float sum) {
    T* out = static_cast<T*>(call.out) + s * call.out_strides.token + (kv_head * group + g) * call.out_strides.head;
    out[i] = from_float<T>(sum > 0 ? value / sum : 0.0f);
  };
  if (pieces == 1) {
    for (int at = threadIdx.x; at < group * kHeadSize; at += kThreads) {
      Running all;
      const float value = block_total(at / kHeadSize, at % kHeadSize, all);
      store(at / kHeadSize, at % kHeadSize, value, all.sum);
    }
    return;
  }

  // scratch: values [sequence, kv head, split, group, head_size], then states of the same rows.
  const int64_t rows_before = (static_cast<int64_t>(s) * call.kv_heads + kv_head) * split.splits;
  const int64_t rows_of_all = static_cast<int64_t>(call.sequences) * call.kv_heads * split.splits;
  float* values = scratch + rows_before * group * kHeadSize;
  auto* piece_states = reinterpret_cast<Running*>(scratch + rows_of_all * group * kHeadSize) + rows_before * group;
  for (int at = threadIdx.x; at < group * kHeadSize; at += kThreads) {
    Running all;
    values[piece * group * kHeadSize + at] = block_total(at / kHeadSize, at % kHeadSize, all);
    if (at % kHeadSize == 0) piece_states[piece * group + at / kHeadSize] = all;
  }
  __threadfence();
  __syncthreads();
  __shared__ bool last;
  if (threadIdx.x == 0) {
    int32_t& arrived = arrivals[s * call.kv_heads + kv_head];
    last = atomicAdd(&arrived, 1) == pieces - 1;
    if (last) arrived = 0;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  for (int at = threadIdx.x; at < group * kHeadSize; at += kThreads) {
    Running all{-INFINITY, 0};
    float value = 0;
    for (int p = 0; p < pieces; ++p) {
      float mine, theirs;
      const float2 state = __ldcg(reinterpret_cast<const float2*>(&piece_states[p * group + at / kHeadSize]));
      all = join(all, {state.x, state.y}, mine, theirs);
      value = value * mine + __ldcg(&values[p * group * kHeadSize + at]) * theirs;
    }
    store(at / kHeadSize, at % kHeadSize, value, all.sum);
  }
}

template <class T, int kHeadSize>
void launch_group(const AttentionCall& call, const DecodeSplit& split, float* scratch, int32_t* arrivals, void* stream) {
  const int group = call.heads / call.kv_heads;
  auto go = [&](auto kernel) {
    launch("decode_pieces", kernel,
           dim3(static_cast<unsigned>(split.splits), static_cast<unsigned>(call.kv_heads),
                static_cast<unsigned>(call.sequences)),
           kThreads, 0, stream, call, split, scratch, arrivals);
  };
  if (group == 1)
    go(decode_pieces<T, kHeadSize, 1>);
  else if (group == 2)
    go(decode_pieces<T, kHeadSize, 2>);
  else if (group <= 4)
    go(decode_pieces<T, kHeadSize, 4>);
  else
    go(decode_pieces<T, kHeadSize, 8>);
}

template <class T>
void launch_head_size(const AttentionCall& call, const DecodeSplit& split, float* scratch, int32_t* arrivals,
                      void* stream) {
  if (call.head_size == 64)
    launch_group<T, 64>(call, split, scratch, arrivals, stream);
  else if (call.head_size == 128)
    launch_group<T, 128>(call, split, scratch, arrivals, stream);
  else
    launch_group<T, 256>(call, split, scratch, arrivals, stream);
}

}  // namespace

DecodeSplit decode_split(const AttentionCall& call) {
  // About four blocks for each of some 132 multiprocessors, and no piece under 32 keys: below, joining costs more than
  // reading.
  constexpr int kBlocksWanted = 528, kLeastKeys = 32;
  int keys = static_cast<int>(call.table_width * kBlockSize);
  if (call.window > 0) keys = std::min(keys, call.window);
  int rows = std::max(1, call.sequences * call.kv_heads);
  int splits = std::clamp((kBlocksWanted + rows - 1) / rows, 1, std::max(1, keys / kLeastKeys));
  int per_split = (keys + splits - 1) / splits;
  per_split = std::max(kLeastKeys, (per_split + kLeastKeys - 1) / kLeastKeys * kLeastKeys);
  return {std::max(1, (keys + per_split - 1) / per_split), per_split};
}

std::string_view decode_split_refusal(const AttentionCall& call) {
  if (call.dtype != DType::kBF16 && call.dtype != DType::kF16) return "it attends in bf16 and f16";
  if (call.head_size != 64 && call.head_size != 128 && call.head_size != 256) return "heads have 64, 128 or 256 elements";
  if (call.heads / call.kv_heads > kMaxGroup) return "at most 8 heads share a kv head";
  if (!heads_on_16_bytes(call)) return "heads must start on 16 bytes";
  if (call.sequences > 65535) return "at most 65535 sequences";
  return {};
}

size_t decode_scratch_bytes(const AttentionCall& call) {
  DecodeSplit split = decode_split(call);
  if (split.splits == 1) return 0;
  auto rows = static_cast<size_t>(call.sequences) * static_cast<size_t>(call.heads) * static_cast<size_t>(split.splits);
  return rows * (static_cast<size_t>(call.head_size) * sizeof(float) + sizeof(Running));
}

void attention_decode_split(const AttentionCall& call, void* scratch, int32_t* arrivals, void* stream) {
  DecodeSplit split = decode_split(call);
  auto* floats = static_cast<float*>(scratch);
  if (call.dtype == DType::kBF16)
    launch_head_size<__nv_bfloat16>(call, split, floats, arrivals, stream);
  else
    launch_head_size<__half>(call, split, floats, arrivals, stream);
}

}  // namespace fk::cuda
