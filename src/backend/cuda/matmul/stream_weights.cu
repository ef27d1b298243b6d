// Few rows times a large matrix: bounded by reading the matrix, so everything here serves keeping loads in flight.
//
// A block owns 16 rows of W and its 16 warps share their length. A warp multiplies with mma.m16n8k16, W as the
// 16-row operand and the tokens as the 8 columns. The instruction's layout asks a thread for pairs of elements 8 apart;
// since the order of a sum does not matter, each thread takes 8 neighbours of a row instead, 16 bytes at once, and the
// tokens are taken in the same order. W therefore goes straight from memory to registers, with no shared memory between.
//
// Between two such products memory would idle: the blocks of one drain, those of the next start and wait for a norm or an
// attention. So the first loads of W are issued before the block waits for the kernel before it, on which W does not
// depend, and blocks that end have the next product's W brought into the L2 meanwhile.
#include "backend/cuda/matmul/stream_weights.h"

#include <algorithm>
#include <cstdlib>

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/tile.cuh"
#include "core/check.h"

namespace fk::cuda {
namespace {

constexpr int kWarps = 16;
constexpr int kThreads = 32 * kWarps;
constexpr int kTileRows = 16;    // of W in one instruction
constexpr int kTileTokens = 8;   // columns of one instruction
constexpr int kChunk = 32;       // elements of a row that four threads load at once: 64 bytes

__device__ __forceinline__ uint4 load_streamed(const void* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

__device__ __forceinline__ float silu(float v) { return v / (1 + __expf(-v)); }
// The tanh form of gelu as a sigmoid: 0.5 (1 + tanh z) = 1 / (1 + exp(-2 z)).
__device__ __forceinline__ float gelu_tanh(float v) {
  const float z = 0.7978845608028654f * (v + 0.044715f * v * v * v);
  return v / (1 + __expf(-2 * z));
}

template <class T>
struct Pointers {
  const T* x;
  const T* weight;
  const T* bias;
  void* out;
};

// A part of the next weights, spread over the last blocks of the grid.
struct Ahead {
  const char* data;
  uint32_t bytes_per_block;  // a multiple of kAheadBytes
  unsigned first_block;
};
constexpr uint32_t kAheadBytes = 4096;  // of one request

struct Sizes {
  int tokens;
  int features;  // columns of out
  int length;    // in_features
  int64_t x_stride, out_stride;
};

__device__ __forceinline__ void fetch_ahead(const Ahead& ahead) {
#if __CUDA_ARCH__ >= 900
  if (blockIdx.x < ahead.first_block) return;
  const char* mine = ahead.data + static_cast<size_t>(blockIdx.x - ahead.first_block) * ahead.bytes_per_block;
  for (uint32_t at = threadIdx.x * kAheadBytes; at < ahead.bytes_per_block; at += kThreads * kAheadBytes)
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(mine + at), "n"(kAheadBytes) : "memory");
#endif
}

// Rows of W that tile `t` of a block multiplies: for gated products 8 rows of gate and the 8 rows of up beside them.
template <StreamEpilogue kEpilogue>
__device__ __forceinline__ int weight_row(int first_feature, int t, int row_in_tile, const Sizes& s) {
  if constexpr (kEpilogue == StreamEpilogue::kPlain) {
    return min(first_feature + kTileRows * t + row_in_tile, s.features - 1);
  } else {
    const int feature = min(first_feature + kTileRows / 2 * t + row_in_tile % 8, s.features - 1);
    return row_in_tile < 8 ? feature : feature + s.features;
  }
}

template <class T, class Out, StreamEpilogue kEpilogue, int kRowTiles, int kTokenTiles, int kUnroll>
__global__ void __launch_bounds__(kThreads) stream_rows(Pointers<T> p, Sizes s, Ahead ahead) {
  constexpr bool kGated = kEpilogue != StreamEpilogue::kPlain;
  constexpr int kFeatures = kRowTiles * (kGated ? kTileRows / 2 : kTileRows);  // a block's
  constexpr int kStep = kChunk * kUnroll;                                     // elements of a row a warp takes at once
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
  const int first_feature = blockIdx.x * kFeatures;

  const T* rows[kRowTiles][2];
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t)
#pragma unroll
    for (int h = 0; h < 2; ++h)
      rows[t][h] = p.weight +
                   static_cast<int64_t>(weight_row<kEpilogue>(first_feature, t, group + 8 * h, s)) * s.length + 8 * quad;

  uint4 w[2][kRowTiles][2][kUnroll];
  auto load_weights = [&](int buffer, int at) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int k = at + u * kChunk;
      const bool inside = k + 8 * quad < s.length;
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t)
#pragma unroll
        for (int h = 0; h < 2; ++h)
          w[buffer][t][h][u] = inside ? load_streamed(rows[t][h] + k) : uint4{0, 0, 0, 0};
    }
  };

  float sum[kRowTiles][kTokenTiles][4] = {};
  auto multiply = [&](int buffer, int at) {
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      const int token = n * kTileTokens + group;
      const T* x = p.x + token * s.x_stride + 8 * quad;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int k = at + u * kChunk;
        uint4 v{0, 0, 0, 0};
        if (token < s.tokens && k + 8 * quad < s.length) v = *reinterpret_cast<const uint4*>(x + k);
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
          const uint4 &low = w[buffer][t][0][u], &high = w[buffer][t][1][u];
          multiply_tile<T>(sum[t][n], low.x, high.x, low.y, high.y, v.x, v.y);
          multiply_tile<T>(sum[t][n], low.z, high.z, low.w, high.w, v.z, v.w);
        }
      }
    }
  };

  int at = warp * kStep;
  load_weights(0, at);
  let_next_start();
  wait_for_previous();
  // Two buffers by name, not by index: registers have no addresses.
  while (at < s.length) {
    load_weights(1, at + kWarps * kStep);
    multiply(0, at);
    at += kWarps * kStep;
    if (at >= s.length) break;
    load_weights(0, at + kWarps * kStep);
    multiply(1, at);
    at += kWarps * kStep;
  }

  fetch_ahead(ahead);
  // Every warp holds a part of each sum.
  constexpr int kTokens = kTokenTiles * kTileTokens, kRows = kRowTiles * kTileRows;
  __shared__ float parts[kWarps][kRows][kTokens + 1];
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t)
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        parts[warp][t * kTileRows + group + 8 * (i / 2)][n * kTileTokens + 2 * quad + i % 2] = sum[t][n][i];
  __syncthreads();
  auto total = [&](int row, int token) {
    float all = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) all += parts[i][row][token];
    return all;
  };
  Out* out = static_cast<Out*>(p.out);
  for (int i = threadIdx.x; i < kFeatures * s.tokens; i += kThreads) {
    const int in_block = i % kFeatures, token = i / kFeatures, feature = first_feature + in_block;
    if (feature >= s.features) continue;
    float value;
    if constexpr (!kGated) {
      value = total(in_block, token);
      if (p.bias != nullptr) value += to_float(p.bias[feature]);
    } else {
      const int row = in_block / 8 * kTileRows + in_block % 8;
      float gate = total(row, token), up = total(row + 8, token);
      if (p.bias != nullptr) {
        gate += to_float(p.bias[feature]);
        up += to_float(p.bias[feature + s.features]);
      }
      // The product of its own would be stored in T; rounding here keeps both ways alike.
      gate = to_float(from_float<T>(gate));
      up = to_float(from_float<T>(up));
      value = (kEpilogue == StreamEpilogue::kSiluAndMul ? silu(gate) : gelu_tanh(gate)) * up;
    }
    out[token * s.out_stride + feature] = from_float<Out>(value);
  }
}

// What the L2 takes without losing what it needs meanwhile, by the blocks that run last: about two per multiprocessor.
Ahead share_ahead(const WeightTrail::Weights& next, unsigned blocks) {
  static const size_t kMostBytes = (getenv("FK_AHEAD_MB") ? (size_t)atoi(getenv("FK_AHEAD_MB")) : 24) << 20;
  constexpr unsigned kLastBlocks = 256;
  const unsigned sharing = std::min(blocks, kLastBlocks);
  const size_t bytes = std::min(next.size_bytes, kMostBytes) / sharing / kAheadBytes * kAheadBytes;
  return {static_cast<const char*>(next.data), static_cast<uint32_t>(bytes), blocks - sharing};
}

template <class T, class Out, StreamEpilogue kEpilogue, int kRowTiles, int kTokenTiles, int kUnroll>
void launch_rows(const MatmulProblem& problem, const MatmulOperands& operands, const WeightTrail::Weights& next,
                 void* stream) {
  constexpr bool kGated = kEpilogue != StreamEpilogue::kPlain;
  constexpr int kFeatures = kRowTiles * (kGated ? kTileRows / 2 : kTileRows);
  const int64_t features = kGated ? problem.out_features / 2 : problem.out_features;
  Pointers<T> pointers{static_cast<const T*>(operands.x), static_cast<const T*>(operands.weight),
                       problem.bias ? static_cast<const T*>(operands.bias) : nullptr, operands.out};
  Sizes sizes{static_cast<int>(problem.rows), static_cast<int>(features), static_cast<int>(problem.in_features),
              problem.x_stride, problem.out_stride};
  const unsigned blocks = blocks_for(features, kFeatures);
  launch("stream_rows", stream_rows<T, Out, kEpilogue, kRowTiles, kTokenTiles, kUnroll>, blocks, kThreads, 0, stream,
         pointers, sizes, share_ahead(next, blocks));
}

template <class T, class Out, StreamEpilogue kEpilogue>
void launch_for_tokens(const MatmulProblem& problem, const MatmulOperands& operands, const WeightTrail::Weights& next,
                       void* stream) {
  if (problem.rows <= kTileTokens)
    launch_rows<T, Out, kEpilogue, 1, 1, 2>(problem, operands, next, stream);
  else
    launch_rows<T, Out, kEpilogue, 1, 2, 2>(problem, operands, next, stream);
}

template <class T>
void launch_typed(const MatmulProblem& problem, const MatmulOperands& operands, StreamEpilogue epilogue,
                  const WeightTrail::Weights& next, void* stream) {
  if (epilogue == StreamEpilogue::kSiluAndMul)
    launch_for_tokens<T, T, StreamEpilogue::kSiluAndMul>(problem, operands, next, stream);
  else if (epilogue == StreamEpilogue::kGeluTanhAndMul)
    launch_for_tokens<T, T, StreamEpilogue::kGeluTanhAndMul>(problem, operands, next, stream);
  else if (problem.out_dtype == DType::kF32)
    launch_for_tokens<T, float, StreamEpilogue::kPlain>(problem, operands, next, stream);
  else
    launch_for_tokens<T, T, StreamEpilogue::kPlain>(problem, operands, next, stream);
}

}  // namespace

std::string_view stream_weights_refusal(const MatmulProblem& p, const MatmulOperands& o, StreamEpilogue epilogue) {
  if (p.dtype != DType::kBF16 && p.dtype != DType::kF16) return "it multiplies bf16 and f16";
  if (p.rows > kMostStreamedRows) return "it takes at most 16 rows";
  if (epilogue != StreamEpilogue::kPlain && p.out_dtype != p.dtype) return "gated products keep their dtype";
  if (p.in_features % 8 != 0 || p.x_stride % 8 != 0 || reinterpret_cast<uintptr_t>(o.x) % 16 != 0 ||
      reinterpret_cast<uintptr_t>(o.weight) % 16 != 0)
    return "rows must start on 16 bytes";
  if (p.out_features > INT32_MAX || p.in_features > INT32_MAX) return "the matrix is too large for 32-bit indices";
  return {};
}

void stream_weights(Context& ctx, const MatmulProblem& problem, const MatmulOperands& operands, StreamEpilogue epilogue) {
  FK_CHECK(problem.rows <= kMostStreamedRows && (epilogue == StreamEpilogue::kPlain || problem.out_features % 2 == 0));
  if (problem.rows == 0) return;
  WeightTrail::Weights next;
  if (ctx.trail != nullptr)
    next = ctx.trail->pass({operands.weight, static_cast<size_t>(problem.out_features * problem.in_features) *
                                                 dtype_size(problem.dtype)});
  if (problem.dtype == DType::kBF16)
    launch_typed<__nv_bfloat16>(problem, operands, epilogue, next, ctx.stream);
  else
    launch_typed<__half>(problem, operands, epilogue, next, ctx.stream);
}

}  // namespace fk::cuda
