// A block has 16 rows of the matrix, all of them in shared memory: their copies start before the block waits for the
// previous kernel, and need almost no registers, so that blocks of both fit on a multiprocessor.
// Warps split the length.
#include "backend/cuda/experts/routed_output.h"

#include "backend/cuda/device/bulk_copy.cuh"
#include "backend/cuda/device/cluster.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/mbarrier.cuh"
#include "backend/cuda/device/multiprocessors.h"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/device/term_sums.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/l1/packs.cuh"

namespace fk::cuda {
namespace {

constexpr int kOutputWarps = 16, kOutputThreads = 32 * kOutputWarps;
[[maybe_unused]] constexpr int kOutputStep = 32;  // elements of a row that four threads multiply at once
[[maybe_unused]] constexpr int kSteps = 8;        // of a warp at once
constexpr int kOutputRowPad = 64;                 // bytes between rows: reads of two rows hit different banks
constexpr int kColumnBytes = kStreamTile * 2;     // of a row of the router: what a block has
static_assert(kStreamTile == 16, "rows of an mma");

constexpr int row_bytes(int length) { return 2 * length + kOutputRowPad; }
constexpr size_t output_shared(int length, int experts) {
  return static_cast<size_t>(kStreamTile) * static_cast<size_t>(row_bytes(length)) +
         static_cast<size_t>(experts + 1) * kColumnBytes;
}

template <class T>
__global__ void __launch_bounds__(kOutputThreads, 2) routed_output_rows(const __grid_constant__ RoutedOutput c) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char output_shared_memory[];
  __shared__ uint64_t barrier;
  __shared__ float parts[kOutputWarps][kStreamTile];
  __shared__ float normed[kStreamTile];  // not yet divided by the root of the mean square
  const int tid = static_cast<int>(threadIdx.x), warp = tid / 32, lane = tid % 32, group = lane / 4, quad = lane % 4;
  const int first = static_cast<int>(blockIdx.x) * kStreamTile, rows = min(kStreamTile, c.to.hidden - first);
  const int pitch = row_bytes(c.length), logits = c.to.experts + 1;
  unsigned char* columns = output_shared_memory + kStreamTile * pitch;
  const uint32_t arrived = shared_address(&barrier);
  if (tid == 0) {
    init_barrier(arrived, 1);
    show_barriers_to_cluster();
    arrive_expecting(arrived, static_cast<uint32_t>(rows * 2 * c.length));
    const T* from = static_cast<const T*>(c.weight) + static_cast<int64_t>(first) * c.length;
    for (int i = 0; i < rows; ++i)
      copy_bytes(shared_address(output_shared_memory + i * pitch), from + static_cast<int64_t>(i) * c.length,
                 static_cast<uint32_t>(2 * c.length), arrived);
  }
  // The columns of the router: two copies for each of its rows.
  for (int i = tid; i < 2 * logits; i += kOutputThreads) {
    const int row = i / 2, column = first + i % 2 * 8;
    const T* from = row < c.to.experts ? static_cast<const T*>(c.router) + static_cast<int64_t>(row) * c.to.hidden
                                       : static_cast<const T*>(c.gate);
    const bool inside = column < c.to.hidden;
    copy_async(shared_address(columns + i * 16), inside ? from + column : from, inside);
  }
  commit_copies();
  float weight = 0, bias = 0;
  if (tid < rows) {
    weight = to_float(static_cast<const T*>(c.to.norm)[first + tid]) + c.to.norm_offset;
    if (c.bias != nullptr) bias = to_float(static_cast<const T*>(c.bias)[first + tid]);
  }
  __syncthreads();  // the barrier exists
  let_next_start();
  wait_for_previous();

  const float residual = tid < rows ? to_float(static_cast<const T*>(c.residual)[first + tid]) : 0.0f;
  const auto* x = static_cast<const T*>(c.x);
  float sum[4] = {};
  bool waiting = true;
  for (int at = warp * kSteps * kOutputStep; at < c.length; at += kOutputWarps * kSteps * kOutputStep) {
    uint4 v[kSteps];  // of column 0 of the product; the other columns are zero
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const int k = at + i * kOutputStep + 8 * quad;
      v[i] = uint4{0, 0, 0, 0};
      if (group == 0 && k < c.length) v[i] = __ldcg(reinterpret_cast<const uint4*>(x + k));
    }
    if (waiting) wait_phase(arrived, 0);
    waiting = false;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const int k = at + i * kOutputStep + 8 * quad;
      uint4 low{0, 0, 0, 0}, high{0, 0, 0, 0};
      if (k < c.length) {
        const unsigned char* from = output_shared_memory + group * pitch + 2 * k;
        low = *reinterpret_cast<const uint4*>(from);
        high = *reinterpret_cast<const uint4*>(from + 8 * pitch);
      }
      multiply_tile<T>(sum, low.x, high.x, low.y, high.y, v[i].x, v[i].y);
      multiply_tile<T>(sum, low.z, high.z, low.w, high.w, v[i].z, v[i].w);
    }
  }
  if (quad == 0) {
    parts[warp][group] = sum[0];
    parts[warp][group + 8] = sum[2];
  }
  wait_copies<0>();
  __syncthreads();
  if (warp == 0) {
    float stream = 0;
    if (tid < rows) {
      float all = bias;
#pragma unroll
      for (int w = 0; w < kOutputWarps; ++w) all += parts[w][tid];
      // Rounded as the product and the sum are where they are stored.
      const T rounded = from_float<T>(to_float(from_float<T>(all)) + residual);
      static_cast<T*>(c.to.stream)[first + tid] = rounded;
      stream = to_float(rounded);
    }
    if (tid < kStreamTile) normed[tid] = stream * weight;
    const float squares = reduce_warp<Sum>(stream * stream);
    if (lane == 0) c.to.squares[blockIdx.x] = squares;
  }
  __syncthreads();
  for (int i = tid; i < logits; i += kOutputThreads) {
    float term = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Pack<T, 8> w;
      const uint4 raw = *reinterpret_cast<const uint4*>(columns + i * kColumnBytes + half * 16);
      memcpy(&w, &raw, sizeof w);
#pragma unroll
      for (int k = 0; k < 8; ++k) term = fmaf(to_float(w.at[k]), normed[8 * half + k], term);
    }
    add_term(c.to.sums, c.to.places(), i, term);
  }
#endif
}

template <class T>
void start_routed_output(const RoutedOutput& c, void* stream) {
  const size_t shared = output_shared(c.length, c.to.experts);
  static size_t allowed = 0;
  if (shared > allowed) allow_shared_memory("routed_output", routed_output_rows<T>, allowed = shared);
  launch("routed_output", routed_output_rows<T>, blocks_for(c.to.hidden, kStreamTile), kOutputThreads, shared, stream,
         c);
}

}  // namespace

std::string_view routed_output_refusal(const RoutedOutput& c) {
  if (c.dtype != DType::kBF16 && c.dtype != DType::kF16) return "it multiplies bf16 and f16";
  if (!has_hopper_launches()) return "it needs copies by barriers (Hopper)";
  auto odd = [](const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 != 0; };
  if (c.length % 8 != 0 || c.to.hidden % 8 != 0 || odd(c.x) || odd(c.weight) || odd(c.router) || odd(c.gate))
    return "rows must start on 16 bytes";
  if (squares_of_stream(c.to.hidden) > kMostAdders) return "the hidden size must be at most 4096";
  constexpr size_t kOwnArrays = 2 << 10;
  if (output_shared(c.length, c.to.experts) + kOwnArrays > shared_memory_of_block())
    return "16 rows and the router's columns do not fit into shared memory";
  return {};
}

void routed_output(const RoutedOutput& call, void* stream) {
  if (call.dtype == DType::kBF16)
    start_routed_output<__nv_bfloat16>(call, stream);
  else
    start_routed_output<__half>(call, stream);
}

}  // namespace fk::cuda
