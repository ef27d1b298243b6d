// One token of one sequence through the whole model, in one kernel.
//
// Decoding is limited by reading the weights, and everything that interrupts the reading lowers the bandwidth: kernels
// that start and end, small kernels between the products, idle blocks at the end of each. Here all blocks are
// persistent; weights stream into a ring buffer in shared memory many copies ahead (weight_stream.cuh). At the five
// points of a layer where data depends on all blocks, the blocks synchronise (grid_barrier.cuh) while the ring fills.
// Norms, residual sums, activations and rotary embeddings are computed by every block that needs their result.
#include "backend/cuda/decode_megakernel/decode_token.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "backend/cuda/decode_megakernel/attend.cuh"
#include "backend/cuda/decode_megakernel/grid_barrier.cuh"
#include "backend/cuda/decode_megakernel/staging.cuh"
#include "backend/cuda/decode_megakernel/weight_stream.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/registers.cuh"
#include "core/check.h"

namespace fk::cuda {
namespace {

constexpr int kFewestSlots = kChunksOnTheirWay + 2, kMostSlots = 8;

// Aligned, because the ring comes after it: copies of weights to a misaligned ring take 20 % longer.
struct alignas(128) Fixed {
  uint64_t barriers[kMostSlots][2];
  TokenLayer layers[kMostLayers];
  float reduced[2 * kTokenWarps];
  TokenAttentionMemory attention;
};

// Layout of a block's shared memory.
struct Memory {
  Fixed* fixed;
  std::byte* scratch;  // x of a product, or partial results of attention
  WeightRing ring;

  __device__ __forceinline__ Memory(const TokenCall& call, std::byte* shared)
      : fixed(reinterpret_cast<Fixed*>(shared)),
        scratch(shared + sizeof(Fixed)),
        ring{.slots = address(shared + sizeof(Fixed) + call.scratch_bytes),
             .barriers = address(fixed->barriers),
             .count = call.slots} {}

  static __device__ __forceinline__ uint32_t address(const void* shared) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  }
};

template <class T, int kHeadSize, class Handover>
class TokenBlock {
 public:
  __device__ __forceinline__ TokenBlock(const TokenCall& call, const Memory& memory)
      : call_(call),
        memory_(memory),
        fixed_(*memory.fixed),
        scratch_(memory.scratch),
        sequence_{*call.length, *call.slot},
        barrier_(call.arrivals),
        handover_(call.dawdle) {
    const int64_t position = *call.position;
    for (int i = static_cast<int>(threadIdx.x); i < call.ropes * call.pairs; i += kTokenThreads) {
      const int rope = i / call.pairs, pair = i % call.pairs;
      const SinCos turn = sin_cos(static_cast<double>(position) * call.model->frequencies[rope][pair]);
      fixed_.attention.angles[rope][pair] = {turn.cos, turn.sin};
    }
  }

  __device__ __forceinline__ void run() {
    for (int layer = 0; layer < call_.layers; ++layer) {
      const TokenLayer& l = fixed_.layers[layer];
      TokenAttention<T, kHeadSize> attention(call_, l, call_.caches[layer], sequence_, fixed_.attention,
                                             reinterpret_cast<float*>(scratch_));
      attention.fetch_ahead();
      fetch_norms(layer + 1);
      stage_stream(layer, l.input_norm);
      multiply(kQkv, [&](int f, float v) { put(call_.qkv, f, v); });
      barrier_.arrive();
      barrier_.wait();
      attention.run();
      barrier_.arrive();
      barrier_.wait();
      stage_plain(static_cast<const T*>(call_.attended), call_.shapes[kOut].length, x());
      multiply(kOut, [&](int f, float v) { put(call_.attention_out, f, v); });
      barrier_.arrive();
      stage({.from = vector(call_.attention_out),
             .own_norm = vector(l.after_attention_norm),
             .residual = vector(call_.residuals[0]),
             .residual_out = vector(call_.residuals[1]),
             .norm = vector(l.feed_forward_norm)});
      multiply(kGateUp, [&](int f, float v) { put(call_.gated, f, v); });
      barrier_.arrive();
      barrier_.wait();
      stage_plain(static_cast<const T*>(call_.gated), call_.shapes[kDown].length, x());
      multiply(kDown, [&](int f, float v) { put(call_.feed_forward_out, f, v); });
      barrier_.arrive();
    }
    let_next_start();
    stage_stream(call_.layers, call_.final_norm);
    multiply(kHead, [&](int f, float v) { call_.logits[f] = v; });
    barrier_.finish();
  }

 private:
  static __device__ __forceinline__ T* vector(const void* address) {
    return static_cast<T*>(const_cast<void*>(address));
  }
  __device__ __forceinline__ T* x() const { return reinterpret_cast<T*>(scratch_); }
  static __device__ __forceinline__ void put(void* to, int feature, float value) {
    static_cast<T*>(to)[feature] = from_float<T>(value);
  }

  // All blocks read a layer's norms at the same time, while nothing else can run: so a block per norm prefetches them
  // into L2 before.
  __device__ __forceinline__ void fetch_norms(int layer) const {
    if (layer >= call_.layers) return;
    const TokenLayer& l = fixed_.layers[layer];
    const void* norms[] = {l.input_norm, l.after_attention_norm, l.feed_forward_norm, l.after_feed_forward_norm};
    constexpr int kLine = 128 / static_cast<int>(sizeof(T));
    // From the last block on: the first blocks compute attention.
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (blockIdx.x + 1 + i == gridDim.x && norms[i] != nullptr)
        for (int at = static_cast<int>(threadIdx.x) * kLine; at < call_.hidden; at += kTokenThreads * kLine)
          asm volatile("prefetch.global.L2 [%0];" ::"l"(vector(norms[i]) + at));
  }

  // The data between layers: the output of the last block, and the residual. The first layer starts with the embedding,
  // without a residual.
  __device__ __forceinline__ void stage_stream(int layer, const void* norm) {
    Staging<T> s{.from = vector(call_.feed_forward_out),
                 .residual = vector(call_.residuals[1]),
                 .residual_out = vector(call_.residuals[0]),
                 .norm = vector(norm)};
    if (layer > 0) {
      s.own_norm = vector(fixed_.layers[layer - 1].after_feed_forward_norm);
    } else {
      const int64_t id = *call_.id;
      // An id outside the vocabulary has an embedding of zeros, as in the operator.
      const bool known = id >= 0 && id < call_.vocabulary;
      s.from = vector(call_.embedding) + (known ? id * call_.hidden : 0);
      s.scale = known ? call_.embedding_scale : 0.0f;
      s.residual = nullptr;
    }
    stage(s, layer > 0);
  }

  __device__ __forceinline__ void stage(const Staging<T>& s, bool wait = true) {
    NormedVector<T> vector(call_, s);
    if (wait) barrier_.wait();
    vector.stage(x(), fixed_.reduced);
  }

  // This block's rows of the next product over the staged x; put(feature, value) gets the results.
  template <class Put>
  __device__ __forceinline__ void multiply(ProductKind kind, const Put& put) {
    const ProductShape& s = call_.shapes[kind];
    const WeightRing& ring = memory_.ring;
    const int warp = static_cast<int>(threadIdx.x / 32);
    share_.for_rounds(s, [&](int first, int count, int columns) {
      const uint32_t row_bytes = static_cast<uint32_t>(columns) * sizeof(T);
      const uint32_t own = static_cast<uint32_t>(2 * warp) * row_bytes;
      uint32_t x_address = Memory::address(x());
      float sum[4] = {};
      for (int column = 0; column < s.length; column += columns, x_address += row_bytes) {
        wait_phase(ring.full(place_.slot), place_.parity);
        handover_.dawdle();
        if (warp < count) {
          const uint32_t rows = ring.slot(place_.slot) + own;
          const uint32_t bytes = static_cast<uint32_t>(min(columns, s.length - column)) * sizeof(T);
#pragma unroll 2
          for (uint32_t at = 0; at < bytes; at += kStep * sizeof(T))
            multiply_step<T>(sum, rows + at, rows + row_bytes + at, x_address + at);
        }
        handover_.dawdle();
        hand_over<Handover>(ring.empty(place_.slot));
        place_.next(ring.count);
      }
      if (warp < count) finish(s, first + warp, gather(sum), put);
    });
  }

  __device__ __forceinline__ float activated(float gate) const {
    // The tanh form of gelu as a sigmoid: 0.5 (1 + tanh z) = 1 / (1 + exp(-2 z)).
    const float z = call_.gelu ? 2 * 0.7978845608028654f * (gate + 0.044715f * gate * gate * gate) : gate;
    return gate / (1 + __expf(-z));
  }

  template <class Put>
  __device__ __forceinline__ void finish(const ProductShape& s, int pair, float2 value, const Put& put) const {
    if (s.gated) {
      // A separate product would be stored in T; rounding here gives the same result.
      const float gate = to_float(from_float<T>(value.x)), up = to_float(from_float<T>(value.y));
      if (threadIdx.x % 32 == 0) put(pair, activated(gate) * up);
    } else {
      const int which = static_cast<int>(threadIdx.x % 32), feature = 2 * pair + which;
      if (which < 2 && feature < s.features) put(feature, which == 0 ? value.x : value.y);
    }
  }

  const TokenCall& call_;
  const Memory& memory_;
  Fixed& fixed_;
  std::byte* scratch_;
  const TokenSequence sequence_;
  GridBarrier barrier_;
  PairShare share_;
  RingPlace place_;
  Handover handover_;
};

template <class T, int kHeadSize, class Handover>
__global__ void __launch_bounds__(kLaunchThreads, 1) decode_token_kernel(const __grid_constant__ TokenCall call) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) std::byte token_shared[];
  const Memory memory(call, token_shared);
  // The layers are copied to shared memory, so that reading them is fast.
  const auto* from = reinterpret_cast<const uint64_t*>(call.model->layers);
  auto* to = reinterpret_cast<uint64_t*>(memory.fixed->layers);
  const int words = call.layers * static_cast<int>(sizeof(TokenLayer) / sizeof(uint64_t));
  for (int i = static_cast<int>(threadIdx.x); i < words; i += kLaunchThreads) to[i] = from[i];
  if (threadIdx.x == 0) memory.ring.start(Handover::kArrivals);
  __syncthreads();
  if (threadIdx.x >= kTokenThreads) {
    give_back_registers<kFetchingRegisters>();
    fetch_weights<T, Handover>(call, memory.fixed->layers, memory.ring);
  } else {
    take_registers<kComputingRegisters>();
    TokenBlock<T, kHeadSize, Handover> block(call, memory);
    block.run();
  }
#endif
}

struct Device {
  int multiprocessors = 0;
  bool cooperative = false;
};

const Device& device() {
  static const Device only = [] {
    int index = 0, multiprocessors = 0, cooperative = 0;
    // Models can be listed without a device.
    if (cudaGetDevice(&index) != cudaSuccess) {
      cudaGetLastError();
      return Device{};
    }
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, index), "Counting multiprocessors");
    check(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, index), "Asking for cooperative launches");
    return Device{multiprocessors, cooperative != 0};
  }();
  return only;
}

// Calls f with the head size as a constant; false for sizes there is no kernel for.
template <class F>
bool with_head_size(int64_t head_size, F&& f) {
  switch (head_size) {
    case 64:
      f(std::integral_constant<int, 64>{});
      return true;
    case 128:
      f(std::integral_constant<int, 128>{});
      return true;
    case 256:
      f(std::integral_constant<int, 256>{});
      return true;
    default:
      return false;
  }
}

// Shared memory for the longest input vector of a product, or the partial results of attention.
size_t scratch_bytes(const TokenCall& call, int64_t head_size) {
  size_t bytes = 0;
  for (const ProductShape& s : call.shapes)
    bytes = std::max(bytes, sizeof(__nv_bfloat16) * static_cast<size_t>((s.length + kStep - 1) / kStep * kStep));
  with_head_size(head_size, [&](auto size) {
    bytes = std::max(bytes, TokenAttention<__nv_bfloat16, size()>::values_bytes(call.heads / call.kv_heads));
  });
  return (bytes + 127) / 128 * 128;
}

// As many slots as fit: more loads in flight hide longer waits.
int slots_that_fit(const TokenCall& call, int64_t head_size) {
  const size_t beside = sizeof(Fixed) + scratch_bytes(call, head_size);
  if (shared_memory_of_block() < beside) return 0;
  return static_cast<int>(std::min<size_t>(kMostSlots, (shared_memory_of_block() - beside) / kSlotBytes));
}

template <int kHeadSize, class Handover>
void start(TokenCall call, void* stream) {
  auto* kernel = decode_token_kernel<__nv_bfloat16, kHeadSize, Handover>;
  call.scratch_bytes = static_cast<int>(scratch_bytes(call, kHeadSize));
  call.slots = slots_that_fit(call, kHeadSize);
  const size_t shared =
      sizeof(Fixed) + static_cast<size_t>(call.scratch_bytes) + static_cast<size_t>(call.slots) * kSlotBytes;
  static size_t allowed = 0;
  if (shared > allowed) allow_shared_memory("decode_token", kernel, allowed = shared);
  launch("decode_token", kernel,
         LaunchShape{.grid = static_cast<unsigned>(device().multiprocessors),
                     .block = kLaunchThreads,
                     .shared_bytes = shared,
                     .cooperative = true},
         stream, call);
}

}  // namespace

std::string_view decode_token_refusal(const TokenCall& call, int64_t head_size) {
  if (!with_head_size(head_size, [](auto) {})) return "heads have 64, 128 or 256 elements";
  if (!device().cooperative || !has_hopper_launches()) return "it needs a Hopper GPU or a later one";
  if (call.layers > kMostLayers) return "it takes at most 128 layers";
  if (call.heads % call.kv_heads != 0 || call.heads / call.kv_heads > kMostGroup)
    return "at most 8 heads share a kv head";
  int blocks = 0;
  with_head_size(head_size,
                 [&](auto size) { blocks = TokenAttention<__nv_bfloat16, size()>::blocks_at_least(call.kv_heads); });
  if (blocks > device().multiprocessors) return "its heads need more multiprocessors than there are";
  if (call.hidden > kMostNormed) return "it norms at most 8192 elements";
  for (const ProductShape& s : call.shapes)
    if (s.length % 8 != 0) return "rows of weights must start on 16 bytes";
  if (slots_that_fit(call, head_size) < kFewestSlots)
    return "a multiprocessor has too little shared memory for such a model";
  return {};
}

TokenScratch decode_token_scratch(const TokenCall& call, int64_t head_size) {
  const auto blocks = static_cast<size_t>(device().multiprocessors);
  TokenScratch scratch{.partial_states = blocks * kMostGroup * 2, .arrivals = 1 + blocks};
  with_head_size(head_size, [&](auto size) {
    const size_t bytes = TokenAttention<__nv_bfloat16, size()>::values_bytes(call.heads / call.kv_heads);
    scratch.partial_values = blocks * (bytes / kTokenWarps / sizeof(float));
  });
  return scratch;
}

void decode_token(const TokenCall& call, int64_t head_size, void* stream) {
  const char* debug = std::getenv("FASTKERNELS_DEBUG_HANDOVER");
  const std::string_view way = debug == nullptr ? "" : debug;
  bool known = with_head_size(head_size, [&](auto size) {
    if (way.empty()) {
      start<size(), AtOnce>(call, stream);
    } else if (way == "lanes") {
      start<size(), EveryLane>(call, stream);
    } else {
      TokenCall dawdling = call;
      dawdling.dawdle = static_cast<unsigned>(std::strtoul(debug, nullptr, 10));
      start<size(), Dawdling>(dawdling, stream);
    }
  });
  FK_CHECK(known);
}

}  // namespace fk::cuda
