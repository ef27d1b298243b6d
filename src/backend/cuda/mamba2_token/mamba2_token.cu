// Three phases a layer, with a barrier of all blocks after each: the norm and in_proj with the convolution; the scan
// with the gate, a head for each block; the norm of groups and out_proj. The residual stream alternates between two
// vectors, and every block norms it for itself.
#include "backend/cuda/mamba2_token/mamba2_token.h"

#include <algorithm>

#include "backend/cuda/decode_megakernel/grid_barrier.cuh"
#include "backend/cuda/decode_megakernel/normed_stream.cuh"
#include "backend/cuda/decode_megakernel/staging.cuh"
#include "backend/cuda/decode_megakernel/token_launch.cuh"
#include "backend/cuda/decode_megakernel/weight_stream.cuh"
#include "backend/cuda/mamba2_token/convolution.cuh"

namespace fk::cuda {
namespace {

using T = __nv_bfloat16;

constexpr int kHeadRowsOfWarp = 4, kMostHeadRows = kHeadRowsOfWarp * kTokenWarps;
constexpr int kMostSsdStates = 128;  // of a row: four for each lane
constexpr int kMostNormGroups = kTokenWarps;
constexpr int kGatedPacks = 2;  // of 8 elements, of a thread

struct alignas(128) Mamba2Fixed {
  uint64_t barriers[kMostSlots][2];
  float sums[2][kTokenWarps];
  float scales[kMostNormGroups];
  ConvolutionMemory convolution;
};

// A block's shared memory: the fixed part, the layers, the input of a product, the ring.
struct Mamba2Memory {
  Mamba2Fixed* fixed;
  Mamba2TokenLayer* layers;
  T* x;
  WeightRing ring;

  __device__ __forceinline__ Mamba2Memory(const Mamba2TokenCall& call, std::byte* shared)
      : fixed(reinterpret_cast<Mamba2Fixed*>(shared)),
        layers(reinterpret_cast<Mamba2TokenLayer*>(fixed + 1)),
        x(reinterpret_cast<T*>(shared + sizeof(Mamba2Fixed) + layers_bytes(call))),
        ring{.slots = static_cast<uint32_t>(__cvta_generic_to_shared(shared + beside_ring(call))),
             .barriers = static_cast<uint32_t>(__cvta_generic_to_shared(fixed->barriers)),
             .count = call.ring_slots} {}

  static constexpr size_t layers_bytes(const Mamba2TokenCall& call) {
    return (static_cast<size_t>(call.layers) * sizeof(Mamba2TokenLayer) + 127) / 128 * 128;
  }
  static constexpr size_t beside_ring(const Mamba2TokenCall& call) {
    return sizeof(Mamba2Fixed) + layers_bytes(call) + static_cast<size_t>(call.scratch_bytes);
  }
};

template <class Handover>
class Mamba2Block {
 public:
  __device__ __forceinline__ Mamba2Block(const Mamba2TokenCall& call, const Mamba2Memory& memory)
      : call_(call),
        layers_(memory.layers),
        fixed_(*memory.fixed),
        x_(memory.x),
        ring_(memory.ring),
        barrier_(call.arrivals),
        handover_(call.dawdle),
        slot_(*call.state_slot) {
    if (slot_ >= call.state_slots) slot_ = -1;
  }

  __device__ __forceinline__ void run() {
    for (int layer = 0; layer < call_.layers; ++layer) {
      const Mamba2TokenLayer& l = layers_[layer];
      project(layer, l);
      barrier_.arrive();
      scan(l, call_.states[layer]);
      barrier_.arrive();
      stage_gated(l);
      multiply(call_.out_shape,
               [&](int f, float v) { put(call_.out, f, l.out_bias != nullptr ? v + weight(l.out_bias, f) : v); });
      barrier_.arrive();
    }
    let_next_start();
    stage_stream(call_.layers, call_.final_norm);
    multiply(call_.head_shape, [&](int f, float v) { call_.logits[f] = v; });
    barrier_.finish();
  }

 private:
  static __device__ __forceinline__ void put(void* to, int feature, float value) {
    static_cast<T*>(to)[feature] = from_float<T>(value);
  }
  static __device__ __forceinline__ float weight(const void* from, int i) {
    return to_float(static_cast<const T*>(from)[i]);
  }
  // Four elements of a vector that other blocks have written.
  static __device__ __forceinline__ float4 four_of(const void* from, int i) {
    const uint2 raw = __ldcg(reinterpret_cast<const uint2*>(static_cast<const T*>(from) + i));
    Pack<T, 4> v;
    memcpy(&v, &raw, sizeof raw);
    return make_float4(to_float(v.at[0]), to_float(v.at[1]), to_float(v.at[2]), to_float(v.at[3]));
  }

  // The next product, of the staged x; put(feature, value) gets the results.
  template <class Put>
  __device__ __forceinline__ void multiply(const DividedShape& s, const Put& put_result) {
    multiply_product(s, x_, ring_, place_, share_, handover_, [&](int pair, float2 value) {
      const int lane = static_cast<int>(threadIdx.x % 32), feature = 2 * pair + lane;
      if (lane < 2 && feature < s.features) put_result(feature, lane == 0 ? value.x : value.y);
    });
  }

  // The stream before layer `layer`, normed, as the input of a product: the embedding, or the output of the last layer
  // and the residual.
  __device__ __forceinline__ void stage_stream(int layer, const void* norm) {
    const int at = static_cast<int>(threadIdx.x) * 8;
    const bool inside = at < call_.hidden;
    auto vector = [&](const void* from, int64_t row = 0) {
      return static_cast<const T*>(from) + row * call_.hidden + at;
    };
    Pack8<T> v = {}, residual = {}, weights = {};
    if (inside) weights = *reinterpret_cast<const Pack8<T>*>(vector(norm));
    if (layer > 0) barrier_.wait();
    if (inside && layer == 0) {
      const int64_t id = *call_.id;
      // An id outside the vocabulary has an embedding of zeros, as in the operator.
      if (id >= 0 && id < call_.vocabulary) v = load_shared_by_all(vector(call_.embedding, id));
    } else if (inside) {
      v = load_shared_by_all(vector(call_.out));
      residual = load_shared_by_all(vector(call_.residuals[layer % 2]));
    }
    add_pack(v, residual);
    if (inside && blockIdx.x == 0)
      *reinterpret_cast<Pack8<T>*>(static_cast<T*>(call_.residuals[(layer + 1) % 2]) + at) = v;
    stage_normed(v, weights, call_.hidden, call_.eps, fixed_.sums[layer % 2], x_);
  }

  __device__ __forceinline__ void project(int layer, const Mamba2TokenLayer& l) {
    const PairRange own = share_.next(call_.in_shape);
    const int first = 2 * own.begin, channels = call_.conv_channels(), size = call_.size();
    const int64_t of_window = static_cast<int64_t>(call_.width - 1) * channels;
    const Convolution convolution{slot_ < 0 ? nullptr : static_cast<T*>(call_.states[layer].window) + slot_ * of_window,
                                  l.conv_weight, l.conv_bias, channels, call_.width};
    convolution.keep(fixed_.convolution, convolution.load(first, 2 * own.count(), size));
    stage_stream(layer, l.norm);
    multiply(call_.in_shape, [&](int f, float v) {
      if (l.in_bias != nullptr) v += weight(l.in_bias, f);
      const int channel = f - size;
      if (channel < 0)
        put(call_.gate, f, v);
      else if (channel < channels)
        put(call_.mixed, channel, convolution.finish(fixed_.convolution, f - first, channel, v));
      else
        put(call_.dt, channel - channels, v);
    });
  }

  // Warps have four rows of a head's state, lanes four states of each. The state and what else is known is loaded
  // before the wait.
  __device__ __forceinline__ void scan(const Mamba2TokenLayer& l, const Mamba2TokenStates& states) {
    const int head = static_cast<int>(blockIdx.x);
    if (head >= call_.heads) {
      barrier_.wait();
      return;
    }
    const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
    const int N = call_.num_states, n = 4 * lane, P = call_.head_dim, first_row = warp * kHeadRowsOfWarp;
    const bool inside = first_row < P, has_states = inside && n < N;  // rows are a multiple of four
    float* base = slot_ < 0 ? nullptr : states.scan + ((slot_ * call_.heads + head) * P + first_row) * N + n;
    const float A = -expf(weight(l.A_log, head)), skip = weight(l.skip, head), bias = weight(l.dt_bias, head);
    float4 h[kHeadRowsOfWarp];
#pragma unroll
    for (int r = 0; r < kHeadRowsOfWarp; ++r) {
      h[r] = make_float4(0, 0, 0, 0);
      if (has_states && base != nullptr) h[r] = __ldcs(reinterpret_cast<const float4*>(base + r * N));
    }
    barrier_.wait();
    const int group = call_.size() + head / (call_.heads / call_.groups) * N, row = head * P + first_row;
    float4 b = make_float4(0, 0, 0, 0), c = b, x = b, z = b;
    if (has_states) {
      b = four_of(call_.mixed, group + n);
      c = four_of(call_.mixed, group + call_.groups * N + n);
    }
    if (inside) {
      x = four_of(call_.mixed, row);
      z = four_of(call_.gate, row);
    }
    const unsigned short raw_dt = __ldcg(static_cast<const unsigned short*>(call_.dt) + head);
    T step;
    memcpy(&step, &raw_dt, sizeof step);
    const float before = to_float(step) + bias;
    const float dt = fmaxf(before, 0.0f) + log1pf(expf(-fabsf(before))), decay = expf(dt * A);  // softplus
    const float inputs[kHeadRowsOfWarp] = {x.x, x.y, x.z, x.w}, gates[kHeadRowsOfWarp] = {z.x, z.y, z.z, z.w};
    float squares = 0;
#pragma unroll
    for (int r = 0; r < kHeadRowsOfWarp; ++r) {
      const float input = dt * inputs[r];
      h[r].x = fmaf(decay, h[r].x, input * b.x);
      h[r].y = fmaf(decay, h[r].y, input * b.y);
      h[r].z = fmaf(decay, h[r].z, input * b.z);
      h[r].w = fmaf(decay, h[r].w, input * b.w);
      const float y = reduce_warp<Sum>(fmaf(h[r].x, c.x, fmaf(h[r].y, c.y, fmaf(h[r].z, c.z, h[r].w * c.w))));
      // The scan's result is rounded, as the norm reads it.
      const float gated = to_float(from_float<T>(fmaf(skip, inputs[r], y))) * (gates[r] / (1.0f + expf(-gates[r])));
      squares = fmaf(gated, gated, squares);
      if (inside && lane == r) call_.gated[row + r] = gated;
      if (has_states && base != nullptr) *reinterpret_cast<float4*>(base + r * N) = h[r];
    }
    squares = sum_of_block(lane == 0 ? squares : 0.0f, fixed_.sums[0]);
    if (threadIdx.x == 0) call_.squares[head] = squares;
  }

  // The norm of groups of heads, as the input of out_proj.
  __device__ __forceinline__ void stage_gated(const Mamba2TokenLayer& l) {
    auto at = [](int j) { return static_cast<int>(threadIdx.x + j * kTokenThreads) * 8; };
    const int size = call_.size();
    Pack8<T> weights[kGatedPacks] = {};
#pragma unroll
    for (int j = 0; j < kGatedPacks; ++j)
      if (at(j) < size) weights[j] = *reinterpret_cast<const Pack8<T>*>(static_cast<const T*>(l.gated_norm) + at(j));
    barrier_.wait();
    const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
    float4 values[kGatedPacks][2] = {};
#pragma unroll
    for (int j = 0; j < kGatedPacks; ++j) {
      if (at(j) >= size) continue;
      const auto* from = reinterpret_cast<const float4*>(call_.gated + at(j));
      values[j][0] = __ldcg(from);
      values[j][1] = __ldcg(from + 1);
    }
    const int of_group = call_.heads / call_.groups, width = of_group * call_.head_dim;
    if (warp < call_.groups) {
      float sum = 0;
      for (int i = lane; i < of_group; i += 32) sum += __ldcg(call_.squares + warp * of_group + i);
      sum = reduce_warp<Sum>(sum);
      if (lane == 0) fixed_.scales[warp] = 1.0f / sqrtf(sum / static_cast<float>(width) + call_.gated_eps);
    }
    meet();
#pragma unroll
    for (int j = 0; j < kGatedPacks; ++j) {
      if (at(j) >= whole_steps(size)) continue;
      Pack8<T> made = {};
      if (at(j) < size) {
        const float scale = fixed_.scales[at(j) / width];
        const float of_pack[8] = {values[j][0].x, values[j][0].y, values[j][0].z, values[j][0].w,
                                  values[j][1].x, values[j][1].y, values[j][1].z, values[j][1].w};
#pragma unroll
        for (int i = 0; i < 8; ++i) made.at[i] = from_float<T>(of_pack[i] * scale * to_float(weights[j].at[i]));
      }
      *reinterpret_cast<Pack8<T>*>(x_ + at(j)) = made;
    }
    meet();
  }

  const Mamba2TokenCall& call_;
  const Mamba2TokenLayer* layers_;
  Mamba2Fixed& fixed_;
  T* x_;
  const WeightRing& ring_;
  GridBarrier barrier_;
  PairShare share_;
  RingPlace place_;
  Handover handover_;
  int64_t slot_;  // of the states; negative: the sequence has none
};

template <class Handover>
__global__ void __launch_bounds__(kLaunchThreads, 1) mamba2_token_kernel(const __grid_constant__ Mamba2TokenCall call) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) std::byte mamba2_shared[];
  const Mamba2Memory memory(call, mamba2_shared);
  // The layers are copied to shared memory, so that reading them is fast.
  const auto* from = reinterpret_cast<const uint64_t*>(call.of_layers);
  auto* to = reinterpret_cast<uint64_t*>(memory.layers);
  const int words = call.layers * static_cast<int>(sizeof(Mamba2TokenLayer) / sizeof(uint64_t));
  for (int i = static_cast<int>(threadIdx.x); i < words; i += kLaunchThreads) to[i] = from[i];
  if (threadIdx.x == 0) memory.ring.start(Handover::kArrivals);
  __syncthreads();
  if (threadIdx.x >= kTokenThreads) {
    give_back_registers<kFetchingRegisters>();
    PairShare share;
    ChunkQueue<Handover> queue(memory.ring, call.dawdle);
    auto fetch = [&](const DividedShape& s, const void* matrix) {
      fetch_product<T>(s, s, matrix, share, queue, CopyWeights{});
    };
    for (int layer = 0; layer < call.layers; ++layer) {
      fetch(call.in_shape, memory.layers[layer].in_proj);
      fetch(call.out_shape, memory.layers[layer].out_proj);
    }
    fetch(call.head_shape, call.head);
    queue.finish();
  } else {
    take_registers<kComputingRegisters>();
    Mamba2Block<Handover> block(call, memory);
    block.run();
  }
#endif
}

int scratch_bytes_of(const Mamba2TokenCall& call) {
  return whole_steps(std::max(call.in_shape.length, call.out_shape.length)) * static_cast<int>(sizeof(T));
}

int ring_slots_of(const Mamba2TokenCall& call) {
  const size_t beside = Mamba2Memory::beside_ring(call);
  if (shared_memory_of_block() < beside) return 0;
  return static_cast<int>(std::min<size_t>(kMostSlots, (shared_memory_of_block() - beside) / kSlotBytes));
}

template <class Handover>
void start(const Mamba2TokenCall& call, void* stream) {
  auto* kernel = mamba2_token_kernel<Handover>;
  const size_t shared = Mamba2Memory::beside_ring(call) + static_cast<size_t>(call.ring_slots) * kSlotBytes;
  static size_t allowed = 0;
  if (shared > allowed) allow_shared_memory("mamba2_token", kernel, allowed = shared);
  launch("mamba2_token", kernel,
         LaunchShape{.grid = static_cast<unsigned>(token_device().multiprocessors),
                     .block = kLaunchThreads,
                     .shared_bytes = shared,
                     .cooperative = true},
         stream, call);
}

}  // namespace

std::string_view mamba2_token_refusal(const Mamba2TokenCall& given) {
  Mamba2TokenCall call = given;
  call.scratch_bytes = scratch_bytes_of(call);
  if (!token_device().cooperative || !has_hopper_launches()) return "it needs a Hopper GPU or a later one";
  if (call.layers > kMostMamba2Layers) return "it takes at most 96 layers";
  if (call.hidden > kMostStream || call.hidden % 8 != 0) return "the hidden size must be a multiple of 8, at most 4096";
  if (call.width > kMostConvolutionWidth) return "the convolution may reach over 4 tokens at most";
  if (call.head_dim > kMostHeadRows || call.head_dim % 4 != 0) return "heads have at most 64 channels, a multiple of 4";
  if (call.num_states > kMostSsdStates || call.num_states % 4 != 0)
    return "a channel has at most 128 states, a multiple of 4";
  if (call.groups > kMostNormGroups) return "there are at most 16 groups";
  if (call.head_dim * (call.heads / call.groups) % 8 != 0) return "a group must have a multiple of 8 channels";
  if (call.size() > kGatedPacks * 8 * kTokenThreads) return "it norms at most 8192 channels";
  const int blocks = token_device().multiprocessors;
  if (call.heads > blocks || 2 * ((pairs_of(call.in_shape) + blocks - 1) / blocks) > kMostConvolutionRows)
    return "it needs more multiprocessors than there are";
  if (ring_slots_of(call) < kFewestSlots) return "a multiprocessor has too little shared memory for such a model";
  return {};
}

void mamba2_token(const Mamba2TokenCall& given, void* stream) {
  Mamba2TokenCall call = given;
  call.scratch_bytes = scratch_bytes_of(call);
  call.ring_slots = ring_slots_of(call);
  for (DividedShape* shape : {&call.in_shape, &call.out_shape, &call.head_shape})
    shape->division = divide_pairs(pairs_of(*shape), shape->length, token_device().multiprocessors);
  with_handover(call, [&](auto handover, const Mamba2TokenCall& in_mode) {
    start<typename decltype(handover)::type>(in_mode, stream);
  });
}

}  // namespace fk::cuda
