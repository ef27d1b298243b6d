// Few rows times a large matrix: limited by reading the matrix, so the goal is to keep loads in flight.
//
// A block has a tile of 16 or 8 rows of W, and its warps split the k dimension, with mma.m16n8k16: a tile of 16 is the
// instruction's 16-row operand and the tokens its 8 columns, for a tile of 8 it is the other way round. In the
// instruction's layout a thread holds pairs of elements 8 apart. Since the order of a sum does not matter, each thread
// loads 8 adjacent elements of a row instead, 16 bytes at once, and x in the same order. So W goes directly from memory
// to registers, without shared memory.
//
// Which tile and how many warps are fastest depends on how the blocks fill the device; stream_tuner.h autotunes this.
//
// The first loads of W are issued before the block waits for the previous kernel: W does not depend on it.
#include "backend/cuda/matmul/stream_weights.h"

#include <iterator>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/matmul/stream_call.cuh"
#include "backend/cuda/matmul/stream_group.h"
#include "backend/cuda/matmul/stream_tuner.h"
#include "core/check.h"

namespace fk::cuda {
namespace {

constexpr int kTileTokens = 8;
constexpr int kChunk = 32;  // elements of a row that four threads load at once: 64 bytes

// One way to split the work.
template <int kWarps_, int kTileRows_, int kUnroll_>
struct Cut {
  static constexpr int kWarps = kWarps_;        // of a block
  static constexpr int kTileRows = kTileRows_;  // of W, all a block has
  static constexpr int kUnroll = kUnroll_;      // chunks a warp takes at once
  static constexpr int kRuns = kTileRows / 8;   // rows a thread loads of
  static constexpr int kRound = kWarps * kUnroll * kChunk;
};

__device__ __forceinline__ uint4 load_streamed(const void* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

// The row of W for a row of a block's tile: in a gated product the first half of the tile is gate rows, the second half
// the matching up rows.
template <StreamEpilogue kEpilogue, int kTileRows>
__device__ __forceinline__ int weight_row(int first_feature, int row_in_tile, const StreamSizes& s) {
  if constexpr (kEpilogue == StreamEpilogue::kPlain) {
    return min(first_feature + row_in_tile, s.features - 1);
  } else {
    const int feature = min(first_feature + row_in_tile % (kTileRows / 2), s.features - 1);
    return row_in_tile < kTileRows / 2 ? feature : feature + s.features;
  }
}

template <StreamEpilogue kEpilogue, class C>
constexpr int features_per_block() {
  return kEpilogue == StreamEpilogue::kPlain ? C::kTileRows : C::kTileRows / 2;
}

template <class T, class Out, StreamEpilogue kEpilogue, class C>
__global__ void __launch_bounds__(32 * C::kWarps) stream_rows(StreamPointers<T> p, StreamSizes s) {
  constexpr int kFeatures = features_per_block<kEpilogue, C>();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
  const int first_feature = blockIdx.x * kFeatures;

  const T* rows[C::kRuns];
#pragma unroll
  for (int h = 0; h < C::kRuns; ++h) {
    const int row = weight_row<kEpilogue, C::kTileRows>(first_feature, group + 8 * h, s);
    rows[h] = p.weight + static_cast<int64_t>(row) * s.length + 8 * quad;
  }

  uint4 w[2][C::kRuns][C::kUnroll];
  auto load_weights = [&](int buffer, int at) {
#pragma unroll
    for (int u = 0; u < C::kUnroll; ++u) {
      const int k = at + u * kChunk;
      const bool inside = k + 8 * quad < s.length;
#pragma unroll
      for (int h = 0; h < C::kRuns; ++h) w[buffer][h][u] = inside ? load_streamed(rows[h] + k) : uint4{0, 0, 0, 0};
    }
  };

  float sum[4] = {};
  const T* x = p.x + min(group, s.tokens - 1) * s.x_stride + 8 * quad;
  auto multiply = [&](int buffer, int at) {
#pragma unroll
    for (int u = 0; u < C::kUnroll; ++u) {
      const int k = at + u * kChunk;
      uint4 v{0, 0, 0, 0};
      if (group < s.tokens && k + 8 * quad < s.length) v = *reinterpret_cast<const uint4*>(x + k);
      const uint4 &low = w[buffer][0][u], &high = w[buffer][C::kRuns - 1][u];
      if constexpr (C::kTileRows == 16) {
        multiply_tile<T>(sum, low.x, high.x, low.y, high.y, v.x, v.y);
        multiply_tile<T>(sum, low.z, high.z, low.w, high.w, v.z, v.w);
      } else {
        multiply_tile<T>(sum, v.x, 0, v.y, 0, low.x, low.y);
        multiply_tile<T>(sum, v.z, 0, v.w, 0, low.z, low.w);
      }
    }
  };

  int at = warp * C::kUnroll * kChunk;
  load_weights(0, at);
  let_next_start();
  wait_for_previous();
  // Two named buffers, not an array: registers cannot be indexed.
  while (at < s.length) {
    load_weights(1, at + C::kRound);
    multiply(0, at);
    at += C::kRound;
    if (at >= s.length) break;
    load_weights(0, at + C::kRound);
    multiply(1, at);
    at += C::kRound;
  }

  // Every warp holds a part of each sum.
  __shared__ float parts[C::kWarps][C::kTileRows][kTileTokens + 1];
  if constexpr (C::kTileRows == 16) {
#pragma unroll
    for (int i = 0; i < 4; ++i) parts[warp][group + 8 * (i / 2)][2 * quad + i % 2] = sum[i];
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) parts[warp][2 * quad + i][group] = sum[i];
  }
  __syncthreads();
  auto total = [&](int row, int token) {
    float all = 0;
#pragma unroll
    for (int i = 0; i < C::kWarps; ++i) all += parts[i][row][token];
    return all;
  };
  Out* out = static_cast<Out*>(p.out);
  for (int i = threadIdx.x; i < kFeatures * s.tokens; i += 32 * C::kWarps) {
    const int in_block = i % kFeatures, token = i / kFeatures, feature = first_feature + in_block;
    if (feature >= s.features) continue;
    const float value =
        stream_result<kEpilogue>(p, s, feature, [&](int half) { return total(in_block + half * kFeatures, token); });
    out[token * s.out_stride + feature] = from_float<Out>(value);
  }
}

template <class T, class Out, StreamEpilogue kEpilogue, class C>
void launch_cut(const MatmulProblem& problem, const MatmulOperands& operands, void* stream) {
  const StreamSizes sizes = stream_sizes(problem, kEpilogue);
  launch("stream_rows", stream_rows<T, Out, kEpilogue, C>,
         blocks_for(sizes.features, features_per_block<kEpilogue, C>()), 32 * C::kWarps, 0, stream,
         stream_pointers<T>(problem, operands), sizes);
}

// The same product as a group of one: its blocks have several tiles and may leave room for the next kernel.
StreamGroup as_group(const MatmulProblem& p, const MatmulOperands& o, StreamEpilogue epilogue) {
  auto rows = [&](const void* at, int64_t count, int64_t stride, int64_t columns) {
    return View(const_cast<void*>(at), Shape{count, std::max(stride, columns)}, p.dtype).narrow(1, 0, columns);
  };
  const int64_t columns = stream_sizes(p, epilogue).features;
  GroupedProduct product{.weight = rows(o.weight, p.out_features, p.in_features, p.in_features),
                         .out = rows(o.out, p.rows, p.out_stride, columns),
                         .x = rows(o.x, p.rows, p.x_stride, p.in_features)};
  if (epilogue == StreamEpilogue::kSiluAndMul) product.activation = GroupActivation::kSiluAndMul;
  if (epilogue == StreamEpilogue::kGeluTanhAndMul) product.activation = GroupActivation::kGeluTanhAndMul;
  if (p.bias) product.bias = View(const_cast<void*>(o.bias), Shape{p.out_features}, p.dtype);
  StreamGroup group;
  group.products.add(product);
  return group;
}

template <class T, class Out, StreamEpilogue kEpilogue>
void launch_rows(const MatmulProblem& problem, const MatmulOperands& operands, void* stream) {
  using Launch = void (*)(const MatmulProblem&, const MatmulOperands&, void*);
  static constexpr Launch kCuts[] = {
      launch_cut<T, Out, kEpilogue, Cut<16, 16, 2>>, launch_cut<T, Out, kEpilogue, Cut<12, 16, 2>>,
      launch_cut<T, Out, kEpilogue, Cut<20, 16, 2>>, launch_cut<T, Out, kEpilogue, Cut<8, 16, 4>>,
      launch_cut<T, Out, kEpilogue, Cut<8, 8, 4>>,   launch_cut<T, Out, kEpilogue, Cut<16, 8, 4>>,
  };
  constexpr int kOwnCuts = static_cast<int>(std::size(kCuts));
  auto run = [&](int cut) {
    if (cut < kOwnCuts)
      kCuts[cut](problem, operands, stream);
    else
      stream_group_with_cut(as_group(problem, operands, kEpilogue), cut - kOwnCuts, stream);
  };
  size_t cuts = std::size(kCuts);
  if constexpr (std::is_same_v<T, Out>) {
    const StreamGroup group = as_group(problem, operands, kEpilogue);
    if (stream_group_refusal(group).empty()) cuts += static_cast<size_t>(stream_group_cuts(group));
  }
  run(stream_cut(problem, kEpilogue, cuts, stream, run));
}

}  // namespace

std::string_view stream_refusal(const MatmulProblem& p, const MatmulOperands& o, StreamEpilogue epilogue) {
  if (p.dtype != DType::kBF16 && p.dtype != DType::kF16) return "it multiplies bf16 and f16";
  if (epilogue != StreamEpilogue::kPlain && p.out_dtype != p.dtype) return "gated products keep their dtype";
  if (p.in_features % 8 != 0 || p.x_stride % 8 != 0 || reinterpret_cast<uintptr_t>(o.x) % 16 != 0 ||
      reinterpret_cast<uintptr_t>(o.weight) % 16 != 0)
    return "rows must start on 16 bytes";
  if (p.out_features > INT32_MAX || p.in_features > INT32_MAX) return "the matrix is too large for 32-bit indices";
  return {};
}

std::string_view stream_weights_refusal(const MatmulProblem& p, const MatmulOperands& o, StreamEpilogue epilogue) {
  if (p.rows > kMostStreamedRows) return "it takes at most 8 rows";
  return stream_refusal(p, o, epilogue);
}

void stream_weights(const MatmulProblem& problem, const MatmulOperands& operands, StreamEpilogue epilogue,
                    void* stream) {
  FK_CHECK(problem.rows <= kMostStreamedRows && (epilogue == StreamEpilogue::kPlain || problem.out_features % 2 == 0));
  if (problem.rows == 0) return;
  with_stream_types(problem, epilogue, [&]<class T, class Out, StreamEpilogue kEpilogue>() {
    launch_rows<T, Out, kEpilogue>(problem, operands, stream);
  });
}

}  // namespace fk::cuda
