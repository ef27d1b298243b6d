// A block works through items of 128 rows. One warpgroup loads: queries, then keys and values tile by tile into a ring.
// Two warpgroups multiply, 64 rows each, with an online softmax, so that scores stay in registers.
#include "backend/cuda/attention/prefill_wgmma.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "backend/cuda/attention/warpgroup_loader.cuh"
#include "backend/cuda/attention/warpgroup_multiplier.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/multiprocessors.h"
#include "backend/cuda/device/registers.cuh"
#include "backend/cuda/device/tensor_map.h"

namespace fk::cuda {
namespace {

using namespace warpgroups;

template <class T, int kHeadSize, bool kCapped>
__global__ void __launch_bounds__(kThreads, 1)
    prefill_warpgroups(const __grid_constant__ AttentionCall call, const __grid_constant__ Boxes boxes) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char shared[];
  const auto start = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const Plan<kHeadSize> plan{(start + kPatternBytes - 1) / kPatternBytes * kPatternBytes};
  if (threadIdx.x == 0) plan.make_barriers(boxes.every_lane);
  __syncthreads();
  let_next_start();
  wait_for_previous();
  const int warpgroup = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
  if (warpgroup == kMultipliers) {
    give_back_registers<Plan<kHeadSize>::kLoaderRegisters>();
    Loader<T, kHeadSize>{call, boxes, plan}.run();
  } else {
    take_registers<Plan<kHeadSize>::kMultiplierRegisters>();
    Multiplier<T, kHeadSize, kCapped>{call, boxes, plan, warpgroup}.run();
  }
#endif
}

// What the documentation of tensor maps asks for: each stride is a multiple of the next inner one.
bool heads_inside_tokens(const HeadStrides& strides, int heads) {
  return strides.head > 0 && strides.token >= heads * strides.head && strides.token % strides.head == 0;
}

template <int kHeadSize>
Boxes boxes_of(const AttentionCall& call) {
  const int group = call.heads / call.kv_heads;
  if (!Plan<kHeadSize>::kBoxes) return {};
  Boxes boxes{};
  boxes.queries = kRows % group == 0 && heads_inside_tokens(call.q_strides, call.heads);
  boxes.keys = call.key_rows > 0 && heads_inside_tokens(call.k_strides, call.kv_heads) &&
               heads_inside_tokens(call.v_strides, call.kv_heads);
  auto rows_of = [&](const void* address, int64_t tokens, int heads, const HeadStrides& strides) {
    return HeadTensor{address, tokens, heads, call.head_size, strides.token, strides.head};
  };
  if (boxes.queries)
    boxes.q = map_of_heads(rows_of(call.q, call.tokens, call.heads, call.q_strides), group, kRows / group);
  if (boxes.keys) {
    boxes.k = map_of_heads(rows_of(call.k, call.key_rows, call.kv_heads, call.k_strides), 1, Plan<kHeadSize>::kKeys);
    boxes.v = map_of_heads(rows_of(call.v, call.key_rows, call.kv_heads, call.v_strides), 1, Plan<kHeadSize>::kKeys);
  }
  return boxes;
}

template <class T, int kHeadSize, bool kCapped>
void launch_items(const AttentionCall& call, void* stream) {
  constexpr auto* kKernel = prefill_warpgroups<T, kHeadSize, kCapped>;
  constexpr size_t kBytes = Plan<kHeadSize>::kBytes;
  static const bool allowed = (allow_shared_memory("prefill_warpgroups", kKernel, kBytes), true);
  static_cast<void>(allowed);
  // Every sequence may leave its last tile partly empty.
  const int64_t rows = int64_t{call.tokens} * (call.heads / call.kv_heads);
  const int64_t most = (rows / kRows + call.sequences) * call.kv_heads;
  Boxes boxes = boxes_of<kHeadSize>(call);
  const char* debug = std::getenv("FASTKERNELS_DEBUG_HANDOVER");
  boxes.every_lane = debug != nullptr && std::string_view(debug) == "lanes";
  launch("prefill_warpgroups", kKernel, static_cast<unsigned>(std::min<int64_t>(most, multiprocessors())), kThreads,
         kBytes, stream, call, boxes);
}

template <class T, int kHeadSize>
void launch_capped(const AttentionCall& call, void* stream) {
  if (call.soft_cap > 0)
    launch_items<T, kHeadSize, true>(call, stream);
  else
    launch_items<T, kHeadSize, false>(call, stream);
}

template <class T>
void launch_head_size(const AttentionCall& call, void* stream) {
  if (call.head_size <= 64)
    launch_capped<T, 64>(call, stream);
  else if (call.head_size <= 128)
    launch_capped<T, 128>(call, stream);
  else
    launch_capped<T, 256>(call, stream);
}

}  // namespace

std::string_view prefill_wgmma_refusal(const AttentionCall& call) {
  if (std::string_view why = wgmma_unavailable(); !why.empty()) return why;
  if (call.dtype != DType::kBF16 && call.dtype != DType::kF16) return "it attends in bf16 and f16";
  if (call.head_size % 8 != 0 || call.head_size > 256) return "heads have a multiple of 8 elements, 256 at most";
  if (!(call.scale > 0)) return "the scale must be positive";
  if (!heads_on_16_bytes(call)) return "heads must start on 16 bytes";
  if (!pages_are_tiles(call)) return "pages must hold 16 tokens";
  return {};
}

void attention_prefill_wgmma(const AttentionCall& call, void* stream) {
  if (call.tokens == 0) return;
  if (call.dtype == DType::kBF16)
    launch_head_size<__nv_bfloat16>(call, stream);
  else
    launch_head_size<__half>(call, stream);
}

}  // namespace fk::cuda
