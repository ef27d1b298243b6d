#include "compiler/codegen/cuda_product_prelude.h"

namespace fk {

const std::string_view kCudaProductPrelude = R"(
#define FK_ROW_MEMORY(name) extern __shared__ uint4 name[]

namespace {

// Weights pass through the L2 once: they are the first to be replaced, so that all else stays there.
__device__ __forceinline__ uint64_t passing_through() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ uint4 load_once(const void* address, uint64_t policy) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address), "l"(policy));
  return v;
}

// sum [16 x 8] += a [16 x 16] b [16 x 8], in the layout of mma.m16n8k16.
template <class T>
__device__ __forceinline__ void multiply_tile(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                              uint32_t b0, uint32_t b1);
template <>
__device__ __forceinline__ void multiply_tile<fk::bf16>(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                                        uint32_t a3, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void multiply_tile<fk::f16>(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                                       uint32_t a3, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// `spread`: as many blocks as the device runs at once share the tiles. The limit of shared memory is that of `most`
// rows in all launches, since those that were recorded before need it, too.
template <class... P>
int launch_products(void (*kernel)(int, int, P...), int tiles, bool spread, int threads, int row_bytes, int most,
                    int64_t rows, int dependent, void* stream, P... args) {
  if (rows == 0) return 0;
  if (rows > most) return cudaErrorInvalidValue;
  const int shared = row_bytes * static_cast<int>(rows);
  int status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, row_bytes * most);
  int of_block = 1;
  if (spread && status == 0) {
    int device = 0, processors = 0, blocks = 0;
    status = cudaGetDevice(&device);
    if (status == 0) status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (status == 0)
      status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, static_cast<size_t>(shared));
    const int places = processors * (blocks > 0 ? blocks : 1);
    if (status == 0) of_block = (tiles + places - 1) / places;
  }
  if (status != 0) return status;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>((tiles + of_block - 1) / of_block));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared);
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &attribute;
  config.numAttrs = dependent != 0 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, static_cast<int>(rows), of_block, args...);
}

}  // namespace
)";

const std::string_view kCudaProducts = R"(
namespace {

template <int kWarps_, int kUnroll_, int kBlocks_, int kRows_>
struct Cut {
  static constexpr int kWarps = kWarps_;    // of a block
  static constexpr int kUnroll = kUnroll_;  // loads that a thread has of each row of the weights at once
  static constexpr int kBlocks = kBlocks_;  // on a multiprocessor at once
  static constexpr int kRows = kRows_;      // at most
};

// The results of a row in shared memory.
template <class T>
__device__ __forceinline__ T* of_row(unsigned char* memory, int slot, int64_t row, int place) {
  return reinterpret_cast<T*>(memory + row * slot + place);
}

// Results that other kernels need.
template <class T, int kElements>
__device__ __forceinline__ void store_rows(T* to, int64_t stride, const unsigned char* from, int slot, int rows) {
  for (int row = 0; row < rows; ++row)
    for (int k = static_cast<int>(threadIdx.x); k < kElements; k += static_cast<int>(blockDim.x))
      to[row * stride + k] = reinterpret_cast<const T*>(from + row * slot)[k];
}

__device__ __forceinline__ int first_tile_of_block(int of_block) { return static_cast<int>(blockIdx.x) * of_block; }
__device__ __forceinline__ int last_tile_of_block(int of_block, int tiles) {
  const int last = (static_cast<int>(blockIdx.x) + 1) * of_block;
  return last < tiles ? last : tiles;
}

// Tiles of sixteen rows of the weights, each multiplied with all rows. Warps split the length: four threads load 64
// bytes of a row, and what a thread loads is one column of both operands, so that no order has to be changed. Loads are
// two rounds ahead, also across tiles, and begin before this block waits for the kernel before.
template <class T, class C, int kLength, int kSlot, class WeightRow, class ComputeRows, class Finish>
__device__ __forceinline__ void stream_products(const unsigned char* memory, int rows, int tile, int last,
                                                const WeightRow& weight_row, const ComputeRows& compute_rows,
                                                const Finish& finish) {
  constexpr int kChunk = 32, kRound = C::kWarps * C::kUnroll * kChunk;
  __shared__ float parts[2][C::kWarps][16][C::kRows + 1];  // of tiles in turn
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int group = lane / 4, quad = lane % 4, in_round = warp * C::kUnroll * kChunk + 8 * quad;
  const uint64_t policy = passing_through();
  uint4 w[2][2][C::kUnroll];
  int loaded = 0, load_tile = tile;
  const T *low = weight_row(tile, group), *high = weight_row(tile, group + 8);
  auto load_weights = [&](int buffer) {
#pragma unroll
    for (int u = 0; u < C::kUnroll; ++u) {
      const int at = loaded + u * kChunk + in_round;
      w[buffer][0][u] = at < kLength && low != nullptr ? load_once(low + at, policy) : uint4{0, 0, 0, 0};
      w[buffer][1][u] = at < kLength && high != nullptr ? load_once(high + at, policy) : uint4{0, 0, 0, 0};
    }
    loaded += kRound;
    if (loaded < kLength) return;
    loaded = 0;
    ++load_tile;
    low = load_tile < last ? weight_row(load_tile, group) : nullptr;
    high = load_tile < last ? weight_row(load_tile, group + 8) : nullptr;
  };
  load_weights(0);
  load_weights(1);
  let_next_start();
  wait_for_previous();
  compute_rows();

  float sum[4] = {};
  const T* x = reinterpret_cast<const T*>(memory + (group < rows ? group : 0) * kSlot) + in_round;
  int done = 0, half = 0;
  // Multiplies one round, and at the end of the rows finishes a tile. False when that was the last.
  auto step = [&](int buffer) {
#pragma unroll
    for (int u = 0; u < C::kUnroll; ++u) {
      uint4 v{0, 0, 0, 0};
      if (group < rows && done + u * kChunk + in_round < kLength)
        v = *reinterpret_cast<const uint4*>(x + done + u * kChunk);
      const uint4 &a = w[buffer][0][u], &b = w[buffer][1][u];
      multiply_tile<T>(sum, a.x, b.x, a.y, b.y, v.x, v.y);
      multiply_tile<T>(sum, a.z, b.z, a.w, b.w, v.z, v.w);
    }
    load_weights(buffer);
    done += kRound;
    if (done < kLength) return true;
    done = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (2 * quad + k % 2 < C::kRows) parts[half][warp][group + 8 * (k / 2)][2 * quad + k % 2] = sum[k];
      sum[k] = 0;
    }
    __syncthreads();
    finish(tile, [&](int column, int row) {
      float all = 0;
#pragma unroll
      for (int k = 0; k < C::kWarps; ++k) all += parts[half][k][column][row];
      return all;
    });
    half ^= 1;
    return ++tile < last;
  };
  while (step(0) && step(1)) {
  }
}

}  // namespace
)";

}  // namespace fk
