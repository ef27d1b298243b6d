// MLAPrefill on CUDA: tensor cores for heads of up to 192 and 128 elements, a warp per row for other calls.
//
// The first as in attention/prefill_mma.cu: a block takes 128 queries of one head and iterates over their keys in tiles
// of 64 with an online softmax. A key's row in shared memory is put together from its head's part and the part that all
// heads share.
#include "ops/l1/mla_prefill.h"

#include "backend/cuda/attention/query_rows.cuh"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/l1/call.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kMlaWarps = 8, kMlaThreads = 32 * kMlaWarps;
constexpr int kMlaRows = 16 * kMlaWarps, kMlaKeys = 64;
constexpr int kKeySize = 192, kValueSize = 128;
constexpr uint32_t kMlaKeyBytes = 2 * kKeySize * kMlaKeys, kMlaValueBytes = 2 * kValueSize * kMlaKeys;
constexpr size_t kMlaSharedBytes = 2 * kKeySize * kMlaRows + 2 * (kMlaKeyBytes + kMlaValueBytes);

struct ProjectedCall {
  const void *q, *kv, *k_pe;
  void* out;
  float* lse;
  int64_t q_token, q_head, kv_token, kv_head, pe_token, out_token, out_head, lse_head;
  const int32_t* cu_seqlens;
  int sequences, tokens, heads, nope, rope, v;
  float scale;
};

struct QueryRange {
  int start = 0, count = -1;  // of the sequence; none: the grid is an upper bound
  int first = 0;              // query of the block
};
__device__ QueryRange query_range(const ProjectedCall& call, int index) {
  for (int s = 0; s < call.sequences; ++s) {
    const int start = call.cu_seqlens[s], count = call.cu_seqlens[s + 1] - start;
    const int tiles = (count + kMlaRows - 1) / kMlaRows;
    // Late queries see the most keys, and long work should start early.
    if (index < tiles) return {start, count, (tiles - 1 - index) * kMlaRows};
    index -= tiles;
  }
  return {};
}

template <class T>
__global__ void __launch_bounds__(kMlaThreads, 1) projected_tiles(ProjectedCall call) {
  constexpr int kKeyChunks = kKeySize / 8, kValueChunks = kValueSize / 8;
  extern __shared__ __align__(128) unsigned char shared[];
  const auto base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const Tile<kKeySize> queries{base};
  auto key_tile = [&](int buffer) {
    return Tile<kKeySize>{base + 2 * kKeySize * kMlaRows + buffer * (kMlaKeyBytes + kMlaValueBytes)};
  };
  auto value_tile = [&](int buffer) { return Tile<kValueSize>{key_tile(buffer).base + kMlaKeyBytes}; };

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
  const int head = blockIdx.y;
  let_next_start();
  wait_for_previous();
  const QueryRange range = query_range(call, blockIdx.x);
  if (range.count < 0) return;

  const T* q = static_cast<const T*>(call.q) + head * call.q_head;
  const int key_size = call.nope + call.rope;
  for (int at = threadIdx.x; at < kMlaRows * kKeyChunks; at += kMlaThreads) {
    const int row = at / kKeyChunks, chunk = at % kKeyChunks, query = range.first + row;
    const bool valid = query < range.count && 8 * chunk < key_size;
    copy_async(queries.chunk(row, chunk), valid ? q + (range.start + query) * call.q_token + 8 * chunk : q, valid);
  }
  const T* kv = static_cast<const T*>(call.kv) + head * call.kv_head;
  const T* k_pe = static_cast<const T*>(call.k_pe);
  const int last_key = min(range.first + kMlaRows, range.count);
  auto load_keys = [&](int first, int buffer) {
#pragma unroll
    for (int i = 0; i < kMlaKeys * kKeyChunks / kMlaThreads; ++i) {
      const int at = threadIdx.x + i * kMlaThreads, row = at / kKeyChunks, chunk = at % kKeyChunks;
      const bool valid = first + row < last_key && 8 * chunk < key_size;
      const int64_t token = range.start + (valid ? first + row : 0);
      const T* from = !valid                  ? kv
                      : 8 * chunk < call.nope ? kv + token * call.kv_token + 8 * chunk
                                              : k_pe + token * call.pe_token + 8 * chunk - call.nope;
      copy_async(key_tile(buffer).chunk(row, chunk), from, valid);
    }
#pragma unroll
    for (int i = 0; i < kMlaKeys * kValueChunks / kMlaThreads; ++i) {
      const int at = threadIdx.x + i * kMlaThreads, row = at / kValueChunks, chunk = at % kValueChunks;
      const bool valid = first + row < last_key && 8 * chunk < call.v;
      const int64_t token = range.start + (valid ? first + row : 0);
      copy_async(value_tile(buffer).chunk(row, chunk), valid ? kv + token * call.kv_token + call.nope + 8 * chunk : kv,
                 valid);
    }
  };

  const float before = call.scale * kLog2E;
  QueryRows<T, kMlaKeys, kValueSize> attended;
  const int my_query[2] = {range.first + warp * 16 + group, range.first + warp * 16 + group + 8};

  load_keys(0, 0);
  commit_copies();
  int buffer = 0;
  for (int first = 0; first < last_key; first += kMlaKeys, buffer ^= 1) {
    if (first + kMlaKeys < last_key) load_keys(first + kMlaKeys, buffer ^ 1);
    commit_copies();
    wait_copies<1>();
    __syncthreads();

    attended.multiply_keys(queries, warp * 16, key_tile(buffer));
    // Query i sees keys 0 .. i.
    const bool all_visible = first + kMlaKeys <= my_query[0] + 1;
    attended.change_scores([&](float value, int r, int key) {
      return all_visible || first + key <= my_query[r] ? value * before : -INFINITY;
    });
    attended.add_values(value_tile(buffer), 0);
    __syncthreads();  // before the next copies overwrite this buffer
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float factor = attended.softmax.inverse(r, 0.0f);
    if (my_query[r] >= range.count) continue;
    const int64_t token = range.start + my_query[r];
    attended.store(static_cast<T*>(call.out) + token * call.out_token + head * call.out_head + 2 * quad, r, factor,
                   call.v);
    if (quad == 0)
      call.lse[head * call.lse_head + token] = (attended.softmax.largest[r] - log2f(factor)) * (1 / kLog2E);
  }
}

constexpr int kPlainWarps = 4, kMostHead = 512;

template <class T>
__global__ void __launch_bounds__(32 * kPlainWarps) projected_rows(ProjectedCall call) {
  wait_for_previous();
  let_next_start();
  __shared__ float queries[kPlainWarps][kMostHead];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, t = blockIdx.x, head = blockIdx.y * kPlainWarps + warp;
  if (head >= call.heads) return;
  int s = 0;
  while (call.cu_seqlens[s + 1] <= t) ++s;
  const int start = call.cu_seqlens[s], keys = t - start + 1, key_size = call.nope + call.rope;
  const T* q = static_cast<const T*>(call.q) + t * call.q_token + head * call.q_head;
  for (int i = lane; i < key_size; i += 32) queries[warp][i] = to_float(q[i]);
  __syncwarp();
  float largest = -INFINITY, sum = 0, mean[kMostHead / 32] = {};
  for (int first = 0; first < keys; first += 32) {
    const int j = first + lane;
    float score = -INFINITY;
    if (j < keys) {
      const T* k = static_cast<const T*>(call.kv) + (start + j) * call.kv_token + head * call.kv_head;
      const T* pe = static_cast<const T*>(call.k_pe) + (start + j) * call.pe_token;
      float dot = 0;
      for (int i = 0; i < call.nope; ++i) dot += queries[warp][i] * to_float(k[i]);
      for (int i = 0; i < call.rope; ++i) dot += queries[warp][call.nope + i] * to_float(pe[i]);
      score = dot * call.scale;
    }
    const float new_largest = fmaxf(largest, reduce_warp<Max>(score));
    const float shrink = expf(largest - new_largest), weight = j < keys ? expf(score - new_largest) : 0.0f;
    sum = sum * shrink + reduce_warp<Sum>(weight);
#pragma unroll
    for (int i = 0; i < kMostHead / 32; ++i) mean[i] *= shrink;
    for (int k = 0; k < min(32, keys - first); ++k) {
      const float w = __shfl_sync(kAllLanes, weight, k);
      const T* v =
          static_cast<const T*>(call.kv) + (start + first + k) * call.kv_token + head * call.kv_head + call.nope;
#pragma unroll
      for (int i = 0; i < kMostHead / 32; ++i)
        if (lane + 32 * i < call.v) mean[i] += w * to_float(v[lane + 32 * i]);
    }
    largest = new_largest;
  }
  T* out = static_cast<T*>(call.out) + t * call.out_token + head * call.out_head;
#pragma unroll
  for (int i = 0; i < kMostHead / 32; ++i)
    if (lane + 32 * i < call.v) out[lane + 32 * i] = from_float<T>(mean[i] / sum);
  if (lane == 0) call.lse[head * call.lse_head + t] = largest + logf(sum);
}

class CudaMLAPrefill : public MLAPrefill {
 public:
  using MLAPrefill::MLAPrefill;

 protected:
  ProjectedCall call_of(const View& q, const View& kv, const View& k_pe, const View& cu_seqlens, const View& out,
                        const View& lse) const {
    return {.q = q.data(),
            .kv = kv.data(),
            .k_pe = k_pe.data(),
            .out = out.data(),
            .lse = static_cast<float*>(lse.data()),
            .q_token = q.stride(0),
            .q_head = q.stride(1),
            .kv_token = kv.stride(0),
            .kv_head = kv.stride(1),
            .pe_token = k_pe.stride(0),
            .out_token = out.stride(0),
            .out_head = out.stride(1),
            .lse_head = lse.stride(0),
            .cu_seqlens = static_cast<const int32_t*>(cu_seqlens.data()),
            .sequences = static_cast<int>(cu_seqlens.size(0)) - 1,
            .tokens = static_cast<int>(q.size(0)),
            .heads = static_cast<int>(init_.num_heads),
            .nope = static_cast<int>(init_.qk_nope_head_dim),
            .rope = static_cast<int>(init_.qk_rope_head_dim),
            .v = static_cast<int>(init_.v_head_dim),
            .scale = static_cast<float>(init_.softmax_scale)};
  }
};

class MLAPrefillMma final : public CudaMLAPrefill {
 public:
  using CudaMLAPrefill::CudaMLAPrefill;

  std::string_view refuse(Args args) const override {
    if (std::string_view why = refuse_call(args); !why.empty()) return why;
    if (args[0]->dtype() != DType::kBF16 && args[0]->dtype() != DType::kF16) return "it attends in bf16 and f16";
    if (init_.qk_nope_head_dim % 8 != 0 || init_.qk_rope_head_dim % 8 != 0 || init_.v_head_dim % 8 != 0 ||
        init_.qk_nope_head_dim + init_.qk_rope_head_dim > kKeySize || init_.v_head_dim > kValueSize)
      return "parts of heads have multiples of 8 elements, keys 192 at most and values 128";
    for (size_t i : {0u, 1u, 2u, 4u}) {
      bool fits = reinterpret_cast<uintptr_t>(args[i]->data()) % 16 == 0;
      for (int d = 0; d + 1 < args[i]->rank(); ++d) fits = fits && args[i]->stride(d) % 8 == 0;
      if (!fits) return "heads must start on 16 bytes";
    }
    return {};
  }

  void forward(Context& ctx, View q, View kv, View k_pe, View cu_seqlens, View out, View lse) override {
    if (q.size(0) == 0) return;
    ProjectedCall call = call_of(q, kv, k_pe, cu_seqlens, out, lse);
    if (q.dtype() == DType::kBF16)
      run<__nv_bfloat16>(call, ctx.stream);
    else
      run<__half>(call, ctx.stream);
  }

 private:
  template <class T>
  static void run(const ProjectedCall& call, void* stream) {
    static const bool allowed = (allow_shared_memory("mla_prefill", projected_tiles<T>, kMlaSharedBytes), true);
    static_cast<void>(allowed);
    // Every sequence may leave its last tile partly empty.
    const auto tiles = static_cast<unsigned>(call.tokens / kMlaRows + call.sequences);
    launch("mla_prefill", projected_tiles<T>, dim3(tiles, static_cast<unsigned>(call.heads)), kMlaThreads,
           kMlaSharedBytes, stream, call);
  }
};

class MLAPrefillRows final : public CudaMLAPrefill {
 public:
  using CudaMLAPrefill::CudaMLAPrefill;

  std::string_view refuse(Args args) const override {
    if (std::string_view why = refuse_call(args); !why.empty()) return why;
    if (init_.qk_nope_head_dim + init_.qk_rope_head_dim > kMostHead || init_.v_head_dim > kMostHead)
      return "heads may have 512 elements at most";
    return refuse_floats({&args[0], &args[1], &args[2], &args[4]});
  }

  void forward(Context& ctx, View q, View kv, View k_pe, View cu_seqlens, View out, View lse) override {
    if (q.size(0) == 0) return;
    with_float_type(q.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      launch("mla_prefill_rows", projected_rows<T>,
             dim3(static_cast<unsigned>(q.size(0)), blocks_for(init_.num_heads, kPlainWarps)), 32 * kPlainWarps, 0,
             ctx.stream, call_of(q, kv, k_pe, cu_seqlens, out, lse));
    });
  }
};

FK_IMPLEMENTATION(MLAPrefill, MLAPrefillMma, "cuda.mma", DeviceKind::kCuda, 200, nullptr);
FK_IMPLEMENTATION(MLAPrefill, MLAPrefillRows, "cuda.warp_per_row", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
