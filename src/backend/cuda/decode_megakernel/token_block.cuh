// The kernel that computes one token of one sequence through the whole model: the work of one block.
//
// Decoding is limited by reading the weights, and everything that interrupts the reading lowers the bandwidth: kernels
// that start and end, small kernels between the products, idle blocks at the end of each. Here all blocks are
// persistent; weights stream into a ring buffer in shared memory many copies ahead (weight_stream.cuh). At the five
// points of a layer where data depends on all blocks, the blocks synchronise (grid_barrier.cuh) while the ring fills.
// Norms, residual sums, activations and rotary embeddings are computed by every block that needs their result. Layers
// with experts have the same five points: the choice is known at the one before gate and up (router.cuh).
#pragma once

#include <type_traits>

#include "backend/cuda/decode_megakernel/attend.cuh"
#include "backend/cuda/decode_megakernel/code_stream.cuh"
#include "backend/cuda/decode_megakernel/expert_stream.cuh"
#include "backend/cuda/decode_megakernel/grid_barrier.cuh"
#include "backend/cuda/decode_megakernel/staging.cuh"
#include "backend/cuda/decode_megakernel/weight_stream.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/registers.cuh"
#include "backend/cuda/l1/swigluoai.cuh"

namespace fk::cuda {

inline constexpr int kFewestSlots = kChunksOnTheirWay + 2, kMostSlots = 8;

// Aligned, because the ring comes after it: copies of weights to a misaligned ring take 20 % longer.
struct alignas(128) Fixed {
  uint64_t barriers[kMostSlots][2];
  TokenLayer layers[kMostLayers];
  float reduced[2 * kTokenWarps];
  TokenAttentionMemory attention;
};
struct alignas(128) FixedWithExperts : Fixed {
  RouterMemory router;
};
struct alignas(128) FixedWithPackedExperts : Fixed {
  PackedRouterMemory router;
};
template <TokenKind kKind>
using FixedOf =
    std::conditional_t<kKind == TokenKind::kDense, Fixed,
                       std::conditional_t<kKind == TokenKind::kExperts, FixedWithExperts, FixedWithPackedExperts>>;

// A block's columns of the router of a layer.
constexpr int router_bytes(const TokenCall& call, int blocks) {
  const int words = call.experts.count * router_stride(call.hidden, blocks);
  return (words * static_cast<int>(sizeof(uint32_t)) + 127) / 128 * 128;
}
constexpr int expert_layers_bytes(const TokenCall& call) {
  return (call.layers * static_cast<int>(sizeof(TokenExpertLayer)) + 127) / 128 * 128;
}

// Layout of a block's shared memory.
template <TokenKind kKind>
struct Memory {
  static constexpr bool kExperts = kKind != TokenKind::kDense;
  using FixedPart = FixedOf<kKind>;

  FixedPart* fixed;
  TokenExpertLayer* expert_layers;  // then the router
  std::byte* scratch;               // x of a product, or partial results of attention
  WeightRing ring;

  __device__ __forceinline__ Memory(const TokenCall& call, std::byte* shared)
      : fixed(reinterpret_cast<FixedPart*>(shared)),
        expert_layers(reinterpret_cast<TokenExpertLayer*>(fixed + 1)),
        scratch(shared + sizeof(FixedPart) +
                (kExperts ? expert_layers_bytes(call) + router_bytes(call, static_cast<int>(gridDim.x)) : 0)),
        ring{
            .slots = address(scratch + call.scratch_bytes), .barriers = address(fixed->barriers), .count = call.slots} {
  }

  __device__ __forceinline__ uint32_t* router(const TokenCall& call) const {
    return reinterpret_cast<uint32_t*>(reinterpret_cast<std::byte*>(fixed + 1) + expert_layers_bytes(call));
  }

  static __device__ __forceinline__ uint32_t address(const void* shared) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  }
};

// Weights: those of the layers (code_stream.cuh).
template <class T, int kHeadSize, class Handover, TokenKind kKind, class Weights>
class TokenBlock {
  static constexpr bool kExperts = kKind != TokenKind::kDense, kPacked = kKind == TokenKind::kPackedExperts;
  static constexpr bool kCoded = Weights::kCodes != TokenCodes::kNone;

 public:
  __device__ __forceinline__ TokenBlock(const TokenCall& call, const Memory<kKind>& memory)
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
      fixed_.attention.angles[rope][pair] = {turn.cos * call.rotary_factor, turn.sin * call.rotary_factor};
    }
  }

  __device__ __forceinline__ void run() {
    if constexpr (kExperts) router().clear();
    for (int layer = 0; layer < call_.layers; ++layer) {
      const TokenLayer& l = fixed_.layers[layer];
      if constexpr (kCoded) layer_ = &l;
      TokenAttention<T, kHeadSize, kPacked> attention(call_, l, call_.caches[layer], sequence_, fixed_.attention,
                                                      reinterpret_cast<float*>(scratch_),
                                                      kPacked ? memory_.expert_layers[layer].sinks : nullptr);
      attention.fetch_ahead();
      fetch_norms(layer + 1);
      fetch_qkv_bias(layer);
      stage_stream<kCoded>(layer, l.input_norm);
      multiply_qkv();
      barrier_.arrive();
      if constexpr (kExperts) router().fetch_matrix(memory_.expert_layers[layer].router, own_of_out());
      barrier_.wait();
      attention.run();
      barrier_.arrive();
      fetch_router_stream(layer);
      barrier_.wait();
      stage_plain(static_cast<const T*>(call_.attended), call_.shapes[kOut].length, x(),
                  placing<kCoded>(call_.shapes[kOut].length));
      multiply_out(layer);
      barrier_.arrive();
      stage<kExperts>({.from = vector(call_.attention_out),
                       .own_norm = vector(l.after_attention_norm),
                       .residual = vector(call_.residuals[0]),
                       .residual_out = vector(call_.residuals[1]),
                       .norm = vector(l.feed_forward_norm)});
      multiply_gate_up(layer);
      barrier_.arrive();
      barrier_.wait();
      multiply_down(layer);
      barrier_.arrive();
    }
    let_next_start();
    stage_stream<false>(call_.layers, call_.final_norm);
    multiply(kHead, [&](int f, float v) { call_.logits[f] = v; });
    barrier_.finish();
  }

 private:
  static __device__ __forceinline__ T* vector(const void* address) {
    return static_cast<T*>(const_cast<void*>(address));
  }
  __device__ __forceinline__ T* x() const { return reinterpret_cast<T*>(scratch_); }
  // How an input of so many elements is placed for its product.
  template <bool kForCodes>
  __device__ __forceinline__ auto placing(int length) const {
    if constexpr (kForCodes)
      return place_for_codes<Weights>(x(), length);
    else
      return PlainPlace{};
  }
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
  template <bool kForCodes>
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
    stage<false, kForCodes>(s, layer > 0);
  }

  template <bool kWithLoadWarps = false, bool kForCodes = kCoded>
  __device__ __forceinline__ void stage(const Staging<T>& s, bool wait = true) {
    NormedVector<T> vector(call_, s);
    if constexpr (kWithLoadWarps)
      barrier_.wait_with_load_warps();
    else if (wait)
      barrier_.wait();
    if constexpr (kPacked && !kWithLoadWarps) asm volatile("cp.async.wait_all;" ::: "memory");  // fetch_qkv_bias
    vector.template stage<kPacked && kWithLoadWarps>(x(), fixed_.reduced, placing<kForCodes>(call_.hidden));
  }

  // This block's pairs of the product after attention.
  __device__ __forceinline__ PairRange own_of_out() const {
    return share_.next(call_.shapes[hidden_from_compiler(kOut)]);
  }

  __device__ __forceinline__ RouterTerms<T> router() const {
    return RouterTerms<T>(call_, fixed_.router, memory_.router(call_));
  }

  // Starts copies of this block's part of the bias; stage() waits for them.
  __device__ __forceinline__ void fetch_qkv_bias(int layer) const {
    if constexpr (kPacked) {
      const PairRange own = share_.next(call_.shapes[hidden_from_compiler(kQkv)]);
      const auto* bias = static_cast<const T*>(memory_.expert_layers[layer].qkv_bias);
      // The last threads: the first one waits for other blocks.
      const int i = kTokenThreads - 1 - static_cast<int>(threadIdx.x);
      if (bias == nullptr || i >= own.count()) return;
      asm volatile(
          "cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(Memory<kKind>::address(fixed_.router.qkv_bias + 2 * i)),
          "l"(bias + 2 * (own.begin + i))
          : "memory");
    }
  }

  __device__ __forceinline__ void fetch_router_stream(int layer) const {
    const void* norm = fixed_.layers[layer].feed_forward_norm;
    if constexpr (kPacked)
      router().fetch_stream(call_.residuals[0], norm, own_of_out(), memory_.expert_layers[layer].out_bias,
                            fixed_.router.out_bias);
    else if constexpr (kExperts)
      router().fetch_stream(call_.residuals[0], norm, own_of_out());
  }

  __device__ __forceinline__ void multiply_qkv() {
    if constexpr (kPacked) {
      const int first = 2 * share_.next(call_.shapes[hidden_from_compiler(kQkv)]).begin;
      multiply(kQkv, [&](int f, float v) { put(call_.qkv, f, v + to_float(fixed_.router.qkv_bias[f - first])); });
    } else {
      multiply(kQkv, [&](int f, float v) { put(call_.qkv, f, v); });
    }
  }

  __device__ __forceinline__ void multiply_gate_up(int layer) {
    if constexpr (kPacked) {
      const DividedShape& s = call_.shapes[hidden_from_compiler(kGateUp)];
      const PairRange own = share_.next(s);
      share_.skip(s);
      const int size = call_.experts.size;
      const uint32_t input = Memory<kKind>::address(x());
      multiply_items<T>(
          memory_.ring, place_, handover_, own.count(), size, s.length, memory_.expert_layers[layer].gate_up_bias,
          fixed_.router.ids[0], [&](int i) { return gate_up_item(own, i, size); }, [&](int) { return input; },
          [&](int i, const PackedItem&, float2 value) {
            const float gate = to_float(from_float<T>(value.x)), up = to_float(from_float<T>(value.y));
            const SwigluLimits limits{call_.experts.swiglu_alpha, call_.experts.swiglu_limit};
            if (threadIdx.x % 32 == 0) put(call_.gated, own.begin + i, swigluoai<T>(gate, up, limits));
          });
    } else {
      multiply(kGateUp, [&](int f, float v) { put(call_.gated, f, v); });
    }
  }

  __device__ __forceinline__ void multiply_out(int layer) {
    if constexpr (kExperts) {
      const PairRange own = own_of_out();
      const RouterTerms<T> terms = router();
      multiply(kOut, [&](int f, float v) {
        if constexpr (kPacked) v += fixed_.router.out_bias[f - 2 * own.begin];
        put(call_.attention_out, f, v);
        terms.put(f - 2 * own.begin, from_float<T>(v));
      });
      terms.add(layer, own);
    } else {
      multiply(kOut, [&](int f, float v) { put(call_.attention_out, f, v); });
    }
  }

  __device__ __forceinline__ void multiply_down(int layer) {
    auto put_out = [&](int f, float v) { put(call_.feed_forward_out, f, v); };
    if constexpr (kPacked) {
      multiply_packed_down(memory_.expert_layers[layer].down_bias, put_out);
    } else if constexpr (kExperts) {
      stage_chosen<false>(call_, static_cast<const T*>(call_.gated), x());
      multiply_chosen(put_out);
    } else {
      stage_plain(static_cast<const T*>(call_.gated), call_.shapes[kDown].length, x(),
                  placing<kCoded>(call_.shapes[kDown].length));
      multiply(kDown, put_out);
    }
  }

  // This block's rows of the next product over the staged x; put(feature, value) gets the results.
  template <class Put>
  __device__ __forceinline__ void multiply(ProductKind kind, const Put& put) {
    const DividedShape& s = call_.shapes[kind];
    const WeightRing& ring = memory_.ring;
    if constexpr (kCoded) {
      if (kind != kHead) {
        multiply_coded<Weights>(s, layer_->matrices[kind], ring, place_, share_, handover_, x(),
                                [&](int pair, float2 value) { finish(s, pair, value, put); });
        const ProductKind next = kind == kDown ? kQkv : static_cast<ProductKind>(kind + 1);
        const TokenLayer* of_next = kind == kDown ? layer_ + 1 : layer_;
        if (of_next < fixed_.layers + call_.layers)
          fetch_row_scales<Weights>(call_.shapes[next], of_next->matrices[next], share_);
        return;
      }
    }
    multiply_product(s, x(), ring, place_, share_, handover_,
                     [&](int pair, float2 value) { finish(s, pair, value, put); });
  }

  // The down product of the chosen experts: the sum of their products, each times its weight.
  template <class Put>
  __device__ __forceinline__ void multiply_chosen(const Put& put) {
    const DividedShape& s = call_.shapes[hidden_from_compiler(kDown)];
    const WeightRing& ring = memory_.ring;
    const int warp = static_cast<int>(threadIdx.x / 32), padded = padded_expert(call_.experts.size);
    share_.for_rounds(s, [&](int first, int count, int columns) {
      const uint32_t row_bytes = static_cast<uint32_t>(columns) * sizeof(T);
      const uint32_t own = static_cast<uint32_t>(2 * warp) * row_bytes;
      uint32_t x_address = Memory<kKind>::address(x());
      float total[4] = {};
      for (int column = 0; column < s.length; column += columns) {
        wait_phase(ring.full(place_.slot), place_.parity);
        handover_.dawdle();
        if (warp < count) {
          uint32_t rows = ring.slot(place_.slot) + own;
          const int end = min(column + columns, s.length);
          for (int at = column; at < end;) {
            const DownRun run = down_run(at, end, padded);
            float sum[4] = {};
#pragma unroll 2
            for (int c = 0; c < run.columns; c += kStep) {
              multiply_step<T>(sum, rows, rows + row_bytes, x_address);
              rows += kStep * sizeof(T);
              x_address += kStep * sizeof(T);
            }
            const float weight = fixed_.router.weights[run.expert];
#pragma unroll
            for (int i = 0; i < 4; ++i) total[i] = fmaf(weight, sum[i], total[i]);
            at += run.columns;
          }
        }
        handover_.dawdle();
        hand_over<Handover>(ring.empty(place_.slot));
        place_.next(ring.count);
      }
      if (warp < count) finish(s, first + warp, gather(total), put);
    });
  }

  // The same where experts are packed: the products of all chosen experts, each rounded, then their sum.
  template <class Put>
  __device__ __forceinline__ void multiply_packed_down(const void* biases, const Put& put_out) {
    stage_chosen<true>(call_, static_cast<const T*>(call_.gated), x());
    const DividedShape& s = call_.shapes[hidden_from_compiler(kDown)];
    const PairRange own = share_.next(s);
    share_.skip(s);
    const int size = call_.experts.size, chosen = call_.experts.chosen;
    const uint32_t input = Memory<kKind>::address(x());
    const auto of_expert = static_cast<uint32_t>(padded_expert(size)) * static_cast<uint32_t>(sizeof(T));
    float2* products = fixed_.router.down;
    multiply_items<T>(
        memory_.ring, place_, handover_, down_items(own, chosen), s.features / 2, size, biases, fixed_.router.ids[0],
        [&](int i) { return down_item(own, i); },
        [&](int expert) { return input + static_cast<uint32_t>(expert) * of_expert; },
        [&](int i, const PackedItem&, float2 value) {
          if (threadIdx.x % 32 == 0) products[i] = {to_float(from_float<T>(value.x)), to_float(from_float<T>(value.y))};
        });
    meet();
    for (int i = static_cast<int>(threadIdx.x); i < 2 * own.count(); i += kTokenThreads) {
      float sum = 0;
      for (int expert = 0; expert < chosen; ++expert) {
        const float2 both = products[expert * own.count() + i / 2];
        sum = fmaf(fixed_.router.weights[expert], i % 2 == 0 ? both.x : both.y, sum);
      }
      put_out(2 * own.begin + i, sum);
    }
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
  const Memory<kKind>& memory_;
  FixedOf<kKind>& fixed_;
  std::byte* scratch_;
  const TokenSequence sequence_;
  GridBarrier barrier_;
  PairShare share_;
  RingPlace place_;
  Handover handover_;
  const TokenLayer* layer_ = nullptr;  // where matrices are coded
};

template <class T, int kHeadSize, class Handover, TokenKind kKind, class Weights>
__global__ void __launch_bounds__(kLaunchThreads, 1) decode_token_kernel(const __grid_constant__ TokenCall call) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) std::byte token_shared[];
  const Memory<kKind> memory(call, token_shared);
  // The layers are copied to shared memory, so that reading them is fast.
  const auto* from = reinterpret_cast<const uint64_t*>(call.model->layers);
  auto* to = reinterpret_cast<uint64_t*>(memory.fixed->layers);
  const int words = call.layers * static_cast<int>(sizeof(TokenLayer) / sizeof(uint64_t));
  for (int i = static_cast<int>(threadIdx.x); i < words; i += kLaunchThreads) to[i] = from[i];
  if constexpr (kKind != TokenKind::kDense)
    for (int i = static_cast<int>(threadIdx.x); i < call.layers; i += kLaunchThreads)
      memory.expert_layers[i] = call.model->expert_layers[i];
  if constexpr (kKind == TokenKind::kPackedExperts)
    for (int i = static_cast<int>(threadIdx.x); i < 2 * kMostQkvPairs; i += kLaunchThreads)
      memory.fixed->router.qkv_bias[i] = from_float<T>(0.0f);
  if (threadIdx.x == 0) memory.ring.start(Handover::kArrivals);
  __syncthreads();
  if (threadIdx.x >= kTokenThreads) {
    give_back_registers<kFetchingRegisters>();
    if constexpr (kKind != TokenKind::kDense)
      fetch_expert_weights<T, Handover, kKind == TokenKind::kPackedExperts>(
          call, memory.fixed->layers, memory.expert_layers, memory.ring, memory.fixed->router);
    else if constexpr (Weights::kCodes != TokenCodes::kNone)
      fetch_coded_weights<Weights, T, Handover>(call, memory.fixed->layers, memory.ring);
    else
      fetch_weights<T, Handover>(call, memory.fixed->layers, memory.ring);
  } else {
    take_registers<kComputingRegisters>();
    TokenBlock<T, kHeadSize, Handover, kKind, Weights> block(call, memory);
    block.run();
  }
#endif
}

}  // namespace fk::cuda
