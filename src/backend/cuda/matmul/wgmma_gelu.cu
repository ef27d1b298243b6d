// A block works through tiles of 128 rows of x by 128 features. One warp loads both, 64 columns at a time, into a ring
// in shared memory. Two warpgroups take turns: each multiplies every second tile alone, and while the other multiplies
// the next one, it applies gelu to its sums and stores them. Two blocks form a cluster: they have different rows of x
// and the same features; each block loads half of their weights, for both blocks.
#include "backend/cuda/matmul/wgmma_gelu.h"

#include <algorithm>

#include "backend/cuda/attention/warpgroup_multiplier.cuh"
#include "backend/cuda/device/bulk_copy.cuh"
#include "backend/cuda/device/cluster.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/mbarrier.cuh"
#include "backend/cuda/device/multiprocessors.h"
#include "backend/cuda/device/registers.cuh"
#include "backend/cuda/device/ring_place.cuh"
#include "backend/cuda/device/tensor_map.h"
#include "backend/cuda/device/wgmma.cuh"
#include "backend/cuda/l1/activations.cuh"

namespace fk::cuda {
namespace {

constexpr int kWarpgroup = 128;
constexpr int kMultipliers = 2;  // warpgroups
constexpr int kThreads = kWarpgroup * (kMultipliers + 1);
constexpr int kBlocks = 2;  // of a cluster
constexpr int kPart = 64;   // rows of a product
constexpr int kParts = 2;   // of a tile
constexpr int kRows = kPart * kParts, kFeatures = 128;
constexpr int kPanel = 64;  // columns of a stage
constexpr int kStages = 7;
constexpr uint32_t kXBytes = kRows * kPanelRowBytes, kWeightBytes = kFeatures * kPanelRowBytes;
constexpr uint32_t kStageBytes = kXBytes + kWeightBytes;
constexpr uint32_t kBarriersAt = kStages * kStageBytes;
constexpr size_t kSharedBytes = kBarriersAt + 16 * kStages + kPatternBytes;  // the start is rounded up
// 65536 registers: compiled for 168 each, then (2 * 232 + 40) * 128 = 64512.
[[maybe_unused]] constexpr int kLoaderRegisters = 40, kMultiplierRegisters = 232;

struct GeluCall {
  const void* bias;
  void* out;
  int rows, features, length;
  int64_t out_stride;
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other GPUs have no wgmma
// Tiles of a cluster: the features of a row of tiles come one after the other, so that clusters share rows of x.
__device__ __forceinline__ int columns_of(const GeluCall& call) { return call.features / kFeatures; }
__device__ __forceinline__ int tiles_of(const GeluCall& call) {
  return (call.rows + kBlocks * kRows - 1) / (kBlocks * kRows) * columns_of(call);
}

struct Ring {
  uint32_t base;

  __device__ __forceinline__ uint32_t x(int slot) const { return base + static_cast<uint32_t>(slot) * kStageBytes; }
  __device__ __forceinline__ uint32_t weight(int slot) const { return x(slot) + kXBytes; }
  // Full: all copies are complete. Empty: every warp of both blocks that multiplies this stage has read it.
  __device__ __forceinline__ uint32_t full(int slot) const {
    return base + kBarriersAt + static_cast<uint32_t>(16 * slot);
  }
  __device__ __forceinline__ uint32_t empty(int slot) const { return full(slot) + 8; }

  __device__ __forceinline__ void make_barriers() const {
    for (int i = 0; i < kStages; ++i) {
      init_barrier(full(i), 1);
      init_barrier(empty(i), kBlocks * kWarpgroup / 32);
    }
    show_barriers_to_cluster();  // and to the copy engine
  }

  __device__ __forceinline__ void release(int slot) const {
    const uint32_t lane = threadIdx.x % 32;
    if (lane < kBlocks) arrive_there(shared_of(empty(slot), lane));
  }
};

__device__ __forceinline__ int clusters() { return static_cast<int>(gridDim.x) / kBlocks; }
__device__ __forceinline__ int first_tile() { return static_cast<int>(blockIdx.x) / kBlocks; }
__device__ __forceinline__ int first_row(int tile, int columns) {
  return (tile / columns * kBlocks + static_cast<int>(block_of_cluster())) * kRows;
}

__device__ __forceinline__ void load_tiles(const GeluCall& call, const CUtensorMap& x, const CUtensorMap& weight,
                                           const Ring& ring) {
  if (threadIdx.x % kWarpgroup >= 32) return;
  const int columns = columns_of(call), tiles = tiles_of(call), half = kFeatures / kBlocks;
  const int rank = static_cast<int>(block_of_cluster());
  RingPlace at{.parity = 1};  // all stages are empty at first
  for (int tile = first_tile(); tile < tiles; tile += clusters()) {
    const int row = first_row(tile, columns), feature = tile % columns * kFeatures + rank * half;
    for (int k = 0; k < call.length; k += kPanel, at.next(kStages)) {
      wait_phase(ring.empty(at.slot), at.parity);
      if (threadIdx.x % 32 == 0) {
        arrive_expecting(ring.full(at.slot), kStageBytes);
        copy_box(ring.x(at.slot), x, k, row, ring.full(at.slot));
        copy_box_to((1 << kBlocks) - 1, ring.weight(at.slot) + static_cast<uint32_t>(rank) * (kWeightBytes / kBlocks),
                    weight, k, feature, ring.full(at.slot));
      }
      __syncwarp();
    }
  }
}

template <class T>
struct GeluMultiplier {
  const GeluCall& call;
  Ring ring;
  int warpgroup;
  int lane = static_cast<int>(threadIdx.x) % 32, quad = lane % 4;
  float sum[kParts][kFeatures / 2];

  // Stages come in the order of tiles, so each warpgroup skips those of the other's tile. It starts when the other has
  // seen all stages of that: the parity of a slot distinguishes only two rounds of the ring.
  __device__ __forceinline__ void run() {
    if (warpgroup == 1) come_by(1, kMultipliers * kWarpgroup);
    const int columns = columns_of(call), tiles = tiles_of(call), steps = call.length / kPanel;
    uint32_t stage = static_cast<uint32_t>(warpgroup * steps);
    for (int tile = first_tile() + warpgroup * clusters(); tile < tiles; tile += kMultipliers * clusters()) {
      meet(1 + warpgroup, kMultipliers * kWarpgroup);
      multiply(stage, steps);
      stage += static_cast<uint32_t>(kMultipliers * steps);
      store(first_row(tile, columns), tile % columns * kFeatures);
    }
  }

  __device__ __forceinline__ void multiply(uint32_t stage, int steps) {
    RingPlace at{.slot = static_cast<int>(stage % kStages), .parity = stage / kStages & 1};
    int before = -1;  // the slot of the stage before
    for (int k = 0; k < steps; ++k, at.next(kStages)) {
      wait_phase(ring.full(at.slot), at.parity);
      const uint64_t x = matrix_descriptor(ring.x(at.slot), 0), w = matrix_descriptor(ring.weight(at.slot), 0);
      begin_products();
#pragma unroll
      for (int i = 0; i < kPanel / 16; ++i)
#pragma unroll
        for (int part = 0; part < kParts; ++part)
          multiply_rows<T>(sum[part], advance(x, part * kPart * kPanelRowBytes + 32 * i), advance(w, 32 * i),
                           k > 0 || i > 0);
      commit_products();
      wait_products<1>();
      if (before >= 0) ring.release(before);
      before = at.slot;
    }
    come_by(2 - warpgroup, kMultipliers * kWarpgroup);
    wait_products<0>();
    hold(sum[0]);
    hold(sum[1]);
    ring.release(before);
  }

  // A lane has 2 of 8 neighbouring features; after an exchange it has all 8 and stores 16 bytes.
  __device__ __forceinline__ void store(int first, int feature) {
    const T* const bias = static_cast<const T*>(call.bias) + feature + 2 * quad;
    const int row = first + static_cast<int>(threadIdx.x) % kWarpgroup / 32 * 16 + lane / 4;
    T* const out = static_cast<T*>(call.out) + row * call.out_stride + feature + 8 * quad;
#pragma unroll
    for (int n = 0; n < kFeatures / 8; n += 4) {
      float add[4][2];
#pragma unroll
      for (int b = 0; b < 4; ++b)
#pragma unroll
        for (int j = 0; j < 2; ++j) add[b][j] = to_float(bias[8 * (n + b) + j]);
#pragma unroll
      for (int part = 0; part < kParts; ++part)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          uint32_t of[4];
#pragma unroll
          for (int b = 0; b < 4; ++b) {
            const float* two = sum[part] + 4 * (n + b) + 2 * r;
            of[b] = pack_two<T>(GeluExact::quick(two[0] + add[b][0]), GeluExact::quick(two[1] + add[b][1]));
          }
          warpgroups::transpose_among_four(of);
          const int down = part * kPart + 8 * r;
          if (row + down < call.rows)
            *reinterpret_cast<uint4*>(out + down * call.out_stride + 8 * n) = make_uint4(of[0], of[1], of[2], of[3]);
        }
    }
  }
};
#endif

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    multiply_gelu(const __grid_constant__ GeluCall call, const __grid_constant__ CUtensorMap x,
                  const __grid_constant__ CUtensorMap weight) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char shared[];
  const auto start = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const Ring ring{(start + kPatternBytes - 1) / kPatternBytes * kPatternBytes};
  if (threadIdx.x == 0) ring.make_barriers();
  __syncwarp();
  arrive_at_cluster();
  wait_for_cluster();
  let_next_start();
  wait_for_previous();
  const int warpgroup = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
  if (warpgroup == kMultipliers) {
    give_back_registers<kLoaderRegisters>();
    load_tiles(call, x, weight, ring);
  } else {
    take_registers<kMultiplierRegisters>();
    GeluMultiplier<T>{call, ring, warpgroup}.run();
  }
  // The other block may still arrive at this one's barriers.
  __syncwarp();
  arrive_at_cluster();
  wait_for_cluster();
#endif
}

template <class T>
void launch_gelu(const GeluCall& call, const CUtensorMap& x, const CUtensorMap& weight, void* stream) {
  constexpr auto* kKernel = multiply_gelu<T>;
  static const bool allowed = (allow_shared_memory("multiply_gelu", kKernel, kSharedBytes), true);
  static_cast<void>(allowed);
  const unsigned tiles = blocks_for(call.rows, kBlocks * kRows) * static_cast<unsigned>(call.features / kFeatures);
  const unsigned clusters = std::min(tiles, static_cast<unsigned>(multiprocessors() / kBlocks));
  launch("multiply_gelu", kKernel,
         LaunchShape{.grid = clusters * kBlocks, .block = kThreads, .shared_bytes = kSharedBytes, .cluster = kBlocks},
         stream, call, x, weight);
}

bool on_16_bytes(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

}  // namespace

std::string_view wgmma_gelu_refusal(const MatmulProblem& p, const MatmulOperands& operands) {
  if (std::string_view why = wgmma_unavailable(); !why.empty()) return why;
  if (p.dtype != DType::kBF16 && p.dtype != DType::kF16) return "it multiplies in bf16 and f16";
  if (p.out_dtype != p.dtype) return "results must have the dtype of x";
  if (!p.bias) return "there must be a bias";
  if (p.in_features % kPanel != 0 || p.in_features == 0) return "rows of x must have a multiple of 64 elements";
  if (p.out_features % kFeatures != 0) return "features must be a multiple of 128";
  if (p.x_stride != p.in_features) return "x must have no gaps between rows";
  if (p.out_stride % 8 != 0 || !on_16_bytes(operands.x) || !on_16_bytes(operands.weight) || !on_16_bytes(operands.out))
    return "rows must start on 16 bytes";
  return {};
}

void multiply_wgmma_gelu(const MatmulProblem& p, const MatmulOperands& operands, void* stream) {
  if (p.rows == 0) return;
  const GeluCall call{.bias = operands.bias,
                      .out = operands.out,
                      .rows = static_cast<int>(p.rows),
                      .features = static_cast<int>(p.out_features),
                      .length = static_cast<int>(p.in_features),
                      .out_stride = p.out_stride};
  const CUtensorMap x = map_of_panels(operands.x, p.rows, p.in_features, kRows);
  const CUtensorMap weight = map_of_panels(operands.weight, p.out_features, p.in_features, kFeatures / kBlocks);
  if (p.dtype == DType::kBF16)
    launch_gelu<__nv_bfloat16>(call, x, weight, stream);
  else
    launch_gelu<__half>(call, x, weight, stream);
}

}  // namespace fk::cuda
