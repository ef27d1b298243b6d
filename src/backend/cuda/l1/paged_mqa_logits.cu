// PagedMQALogits on CUDA: tensor cores for up to 64 heads of 128 elements, a lane per head for other calls.
//
// The first: a block has a query and a piece of its keys, of which it multiplies 64 at a time by all heads, 16 to a
// warp; positive products are weighted where they were computed and added up over lanes and warps.
#include "ops/l1/paged_mqa_logits.h"

#include <algorithm>
#include <bit>

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/latent_parts.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

struct IndexCall {
  const void *q, *cache;
  const float* weights;
  float* logits;
  int64_t q_token, q_head, block_stride, entry_stride, weight_token, logit_token;
  const int32_t *seq_lens, *block_table, *cu_seqlens_q;
  int64_t table_width;
  int page_bits, sequences, heads, head_dim, row;  // row: logits of a query
  int piece = 0;                                   // keys of a block
  float scale;
};

struct IndexQuery {
  int sequence, keys;  // that it sees
};
__device__ IndexQuery index_query(const IndexCall& call, int t) {
  if (call.cu_seqlens_q == nullptr) return {t, call.seq_lens[t]};
  int low = 0, high = call.sequences - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (call.cu_seqlens_q[middle] <= t)
      low = middle;
    else
      high = middle - 1;
  }
  return {low, call.seq_lens[low] - call.cu_seqlens_q[low + 1] + t + 1};
}
__device__ __forceinline__ int64_t index_key(const IndexCall& call, int s, int j) {
  const int64_t block = call.block_table[s * call.table_width + (j >> call.page_bits)];
  return block * call.block_stride + (j & ((1 << call.page_bits) - 1)) * call.entry_stride;
}

constexpr int kIndexHeads = 64, kIndexDim = 128, kIndexKeys = 64, kIndexThreads = 128;
constexpr uint32_t kIndexTileBytes = 2 * kIndexDim * kIndexKeys;
constexpr size_t kIndexSharedBytes = 3 * kIndexTileBytes;

template <class T>
__global__ void __launch_bounds__(kIndexThreads) index_tiles(IndexCall call) {
  constexpr int kChunks = kIndexDim / 8;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ float sums[kIndexThreads / 32][kIndexKeys];
  const auto base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const Tile<kIndexDim> queries{base};
  auto key_tile = [&](int buffer) { return Tile<kIndexDim>{base + (1 + buffer) * kIndexTileBytes}; };
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4, t = blockIdx.x;
  let_next_start();
  wait_for_previous();
  const IndexQuery query = index_query(call, t);
  const int first_key = static_cast<int>(blockIdx.y) * call.piece, end = min(first_key + call.piece, call.row);
  const int last_key = min(end, query.keys);
  float* logits = call.logits + t * call.logit_token;
  for (int j = max(first_key, query.keys) + static_cast<int>(threadIdx.x); j < end; j += kIndexThreads)
    logits[j] = -INFINITY;
  if (first_key >= last_key) return;

  const T* q = static_cast<const T*>(call.q) + t * call.q_token;
  for (int at = threadIdx.x; at < kIndexHeads * kChunks; at += kIndexThreads) {
    const int row = at / kChunks, chunk = at % kChunks;
    const bool valid = row < call.heads;
    copy_async(queries.chunk(row, chunk), valid ? q + row * call.q_head + 8 * chunk : q, valid);
  }
  auto load_keys = [&](int first, int buffer) {
#pragma unroll
    for (int i = 0; i < kIndexKeys * kChunks / kIndexThreads; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kIndexThreads, row = at / kChunks, chunk = at % kChunks;
      const bool valid = first + row < last_key;
      const T* cache = static_cast<const T*>(call.cache);
      copy_async(key_tile(buffer).chunk(row, chunk),
                 valid ? cache + index_key(call, query.sequence, first + row) + 8 * chunk : cache, valid);
    }
  };
  float weight[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int head = warp * 16 + group + 8 * r;
    weight[r] = head < call.heads ? call.weights[t * call.weight_token + head] : 0.0f;
  }

  load_keys(first_key, 0);
  commit_copies();
  int buffer = 0;
  for (int first = first_key; first < last_key; first += kIndexKeys, buffer ^= 1) {
    if (first + kIndexKeys < last_key) load_keys(first + kIndexKeys, buffer ^ 1);
    commit_copies();
    wait_copies<1>();
    __syncthreads();
    float score[kIndexKeys / 8][4] = {};
#pragma unroll
    for (int k = 0; k < kIndexDim / 16; ++k) {
      uint32_t a[4];
      load_matrices(a, queries.chunk(warp * 16 + lane % 16, 2 * k + lane / 16));
#pragma unroll
      for (int n = 0; n < kIndexKeys / 16; ++n) {
        uint32_t b[4];
        load_matrices(b, key_tile(buffer).chunk(n * 16 + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
        multiply_tile<T>(score[2 * n], a[0], a[1], a[2], a[3], b[0], b[1]);
        multiply_tile<T>(score[2 * n + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
      }
    }
#pragma unroll
    for (int n = 0; n < kIndexKeys / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        // A NaN is not negative, so it stays; heads that are not there have queries and weights of zero.
        const float up = score[n][c], down = score[n][2 + c];
        float sum = weight[0] * (up < 0 ? 0.0f : up) + weight[1] * (down < 0 ? 0.0f : down);
        sum += __shfl_xor_sync(kAllLanes, sum, 4);
        sum += __shfl_xor_sync(kAllLanes, sum, 8);
        sum += __shfl_xor_sync(kAllLanes, sum, 16);
        if (group == 0) sums[warp][n * 8 + 2 * quad + c] = sum;
      }
    }
    __syncthreads();
    for (int j = threadIdx.x; j < kIndexKeys; j += kIndexThreads)
      if (first + j < last_key)
        logits[first + j] = call.scale * ((sums[0][j] + sums[1][j]) + (sums[2][j] + sums[3][j]));
    __syncthreads();  // before the next copies and sums overwrite these
  }
  wait_copies<0>();
}

constexpr int kPlainKeyWarps = 4;

// A warp per key, a lane per head.
template <class T>
__global__ void __launch_bounds__(32 * kPlainKeyWarps) index_keys(IndexCall call) {
  let_next_start();
  wait_for_previous();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, t = blockIdx.x;
  const int j = static_cast<int>(blockIdx.y) * kPlainKeyWarps + warp;
  if (j >= call.row) return;
  const IndexQuery query = index_query(call, t);
  float* logits = call.logits + t * call.logit_token;
  if (j >= query.keys) {
    if (lane == 0) logits[j] = -INFINITY;
    return;
  }
  const T* key = static_cast<const T*>(call.cache) + index_key(call, query.sequence, j);
  float sum = 0;
  for (int h = lane; h < call.heads; h += 32) {
    const T* q = static_cast<const T*>(call.q) + t * call.q_token + h * call.q_head;
    float dot = 0;
    for (int d = 0; d < call.head_dim; ++d) dot += to_float(q[d]) * to_float(key[d]);
    sum += call.weights[t * call.weight_token + h] * (dot < 0 ? 0.0f : dot);
  }
  sum = reduce_warp<Sum>(sum);
  if (lane == 0) logits[j] = call.scale * sum;
}

class CudaPagedMQALogits : public PagedMQALogits {
 public:
  using PagedMQALogits::PagedMQALogits;

 protected:
  IndexCall call_of(const View& q, const View& k_cache, const View& weights, const View& seq_lens,
                    const View& block_table, const OptView& cu_seqlens_q, const View& logits) const {
    return {.q = q.data(),
            .cache = k_cache.data(),
            .weights = static_cast<const float*>(weights.data()),
            .logits = static_cast<float*>(logits.data()),
            .q_token = q.stride(0),
            .q_head = q.stride(1),
            .block_stride = k_cache.stride(0),
            .entry_stride = k_cache.stride(1),
            .weight_token = weights.stride(0),
            .logit_token = logits.stride(0),
            .seq_lens = static_cast<const int32_t*>(seq_lens.data()),
            .block_table = static_cast<const int32_t*>(block_table.data()),
            .cu_seqlens_q = cu_seqlens_q ? static_cast<const int32_t*>(cu_seqlens_q->data()) : nullptr,
            .table_width = block_table.stride(0),
            .page_bits = std::countr_zero(static_cast<uint64_t>(k_cache.size(1))),
            .sequences = static_cast<int>(seq_lens.size(0)),
            .heads = static_cast<int>(init_.num_heads),
            .head_dim = static_cast<int>(init_.head_dim),
            .row = static_cast<int>(logits.size(1) * logits.size(2)),
            .scale = static_cast<float>(init_.scale)};
  }
};

class PagedMQALogitsMma final : public CudaPagedMQALogits {
 public:
  using CudaPagedMQALogits::CudaPagedMQALogits;

  std::string_view refuse(Args args) const override {
    if (std::string_view why = refuse_call(args); !why.empty()) return why;
    if (args[0]->dtype() != DType::kBF16 && args[0]->dtype() != DType::kF16) return "it multiplies bf16 and f16";
    if (init_.num_heads > kIndexHeads || init_.head_dim != kIndexDim) return "it has up to 64 heads of 128 elements";
    for (size_t i : {0u, 1u})
      if (reinterpret_cast<uintptr_t>(args[i]->data()) % 16 != 0 || args[i]->stride(0) % 8 != 0 ||
          args[i]->stride(1) % 8 != 0)
        return "heads and keys must start on 16 bytes";
    return {};
  }

  void forward(Context& ctx, View q, View k_cache, View weights, View seq_lens, View block_table, OptView cu_seqlens_q,
               View logits) override {
    IndexCall call = call_of(q, k_cache, weights, seq_lens, block_table, cu_seqlens_q, logits);
    if (q.dtype() == DType::kBF16)
      run<__nv_bfloat16>(call, q.size(0), ctx.stream);
    else
      run<__half>(call, q.size(0), ctx.stream);
  }

 private:
  template <class T>
  static void run(IndexCall call, int64_t tokens, void* stream) {
    // Small pieces where there are few queries: all multiprocessors have a block. Large ones read the queries less
    // often.
    constexpr int64_t kMostPiece = 512, kEnoughBlocks = 512;
    const int64_t tiles = blocks_for(call.row, kIndexKeys), at_once = tiles * tokens / kEnoughBlocks;
    call.piece = static_cast<int>(std::clamp(at_once * kIndexKeys, int64_t{kIndexKeys}, kMostPiece));
    static const bool allowed = (allow_shared_memory("paged_mqa_logits", index_tiles<T>, kIndexSharedBytes), true);
    static_cast<void>(allowed);
    launch("paged_mqa_logits", index_tiles<T>, dim3(static_cast<unsigned>(tokens), blocks_for(call.row, call.piece)),
           kIndexThreads, kIndexSharedBytes, stream, call);
  }
};

class PagedMQALogitsLanes final : public CudaPagedMQALogits {
 public:
  using CudaPagedMQALogits::CudaPagedMQALogits;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1]}) : why;
  }

  void forward(Context& ctx, View q, View k_cache, View weights, View seq_lens, View block_table, OptView cu_seqlens_q,
               View logits) override {
    IndexCall call = call_of(q, k_cache, weights, seq_lens, block_table, cu_seqlens_q, logits);
    with_float_type(q.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      launch("paged_mqa_logits_lanes", index_keys<T>,
             dim3(static_cast<unsigned>(q.size(0)), blocks_for(call.row, kPlainKeyWarps)), 32 * kPlainKeyWarps, 0,
             ctx.stream, call);
    });
  }
};

FK_IMPLEMENTATION(PagedMQALogits, PagedMQALogitsMma, "cuda.mma", DeviceKind::kCuda, 200, nullptr);
FK_IMPLEMENTATION(PagedMQALogits, PagedMQALogitsLanes, "cuda.lane_per_head", DeviceKind::kCuda, 100, nullptr);

}  // namespace

void paged_mqa_logits(Context& ctx, const PagedMQALogits::Init& init, const View& q, const View& k_cache,
                      const View& weights, const View& seq_lens, const View& block_table, const OptView& cu_seqlens_q,
                      const View& logits) {
  const OptView args[] = {q, k_cache, weights, seq_lens, block_table, cu_seqlens_q, logits};
  PagedMQALogitsMma mma(init);
  if (mma.refuse(args).empty())
    mma.forward(ctx, q, k_cache, weights, seq_lens, block_table, cu_seqlens_q, logits);
  else
    PagedMQALogitsLanes(init).forward(ctx, q, k_cache, weights, seq_lens, block_table, cu_seqlens_q, logits);
}

}  // namespace fk::cuda
