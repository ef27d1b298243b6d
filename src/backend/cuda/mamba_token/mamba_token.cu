// A block has the same channels in all of a layer but its last product, so most of what lies between stays in the
// block. A layer is
//   the norm, the half of in_proj that is convolved, the convolution, the terms of x_proj
//   in_proj's other half, which only the gate needs: meanwhile all blocks add their terms
//   after a barrier of all blocks, which nobody has to wait long for: dt_proj, the scan, the gate
//   out_proj
// Blocks exchange the gated result of the scan and that of out_proj by tagged words (tagged.cuh). The barrier is also
// what keeps a block from writing one of these vectors while another still reads it for the layer before: a block
// arrives when it has read both.
#include "backend/cuda/mamba_token/mamba_token.h"

#include <algorithm>

#include "backend/cuda/decode_megakernel/grid_barrier.cuh"
#include "backend/cuda/decode_megakernel/normed_stream.cuh"
#include "backend/cuda/decode_megakernel/token_launch.cuh"
#include "backend/cuda/decode_megakernel/weight_stream.cuh"
#include "backend/cuda/mamba2_token/convolution.cuh"
#include "backend/cuda/mamba_token/channel_rounds.cuh"
#include "backend/cuda/mamba_token/parameters.cuh"
#include "backend/cuda/mamba_token/tagged.cuh"

namespace fk::cuda {
namespace {

using T = __nv_bfloat16;

constexpr int kChannelLanes = 8;  // threads of a channel in the scan, each with two states
constexpr int kRankPacks = 4, kMostRank = kRankPacks * kChannelLanes * 8;
constexpr int kGatedPacks = 2;                                    // of 8 elements, of a thread
[[maybe_unused]] constexpr float kLog2Of = 1.44269504088896341f;  // e; devices before sm_90 get no kernel
static_assert(kTokenThreads / kChannelLanes == kMostBlockChannels && kMambaStates == 2 * kChannelLanes);

struct alignas(128) MambaFixed {
  uint64_t barriers[kMostSlots][2];
  float sums[2][kTokenWarps];
  ConvolutionMemory convolution;
  // Of the block's channels: what the convolution gives, and the gate.
  alignas(16) float u[kMostBlockChannels];
  float gate[kMostBlockChannels];
  alignas(16) float parameters[kMostParameters];  // the time step, B, C
};

// A block's shared memory: the fixed part, the layers, the input of a product, the ring.
struct MambaMemory {
  MambaFixed* fixed;
  MambaTokenLayer* layers;
  T* x;
  WeightRing ring;

  __device__ __forceinline__ MambaMemory(const MambaTokenCall& call, std::byte* shared)
      : fixed(reinterpret_cast<MambaFixed*>(shared)),
        layers(reinterpret_cast<MambaTokenLayer*>(fixed + 1)),
        x(reinterpret_cast<T*>(shared + sizeof(MambaFixed) + layers_bytes(call))),
        ring{.slots = static_cast<uint32_t>(__cvta_generic_to_shared(shared + beside_ring(call))),
             .barriers = static_cast<uint32_t>(__cvta_generic_to_shared(fixed->barriers)),
             .count = call.ring_slots} {}

  static constexpr size_t layers_bytes(const MambaTokenCall& call) {
    return (static_cast<size_t>(call.layers) * sizeof(MambaTokenLayer) + 127) / 128 * 128;
  }
  static constexpr size_t beside_ring(const MambaTokenCall& call) {
    return sizeof(MambaFixed) + layers_bytes(call) + static_cast<size_t>(call.scratch_bytes);
  }
};

[[maybe_unused]] __device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

// What the scan needs of a thread's channel and two of its states.
struct ScanInputs {
  uint4 dt_proj[kRankPacks];
  float2 state, rate;
  float skip, dt_bias;
  float2* at;  // of the state; null: there is none
};

template <class Handover>
class MambaBlock {
 public:
  __device__ __forceinline__ MambaBlock(const MambaTokenCall& call, const MambaMemory& memory)
      : call_(call),
        layers_(memory.layers),
        fixed_(*memory.fixed),
        x_(memory.x),
        ring_(memory.ring),
        barrier_(call.memory.arrivals),
        handover_(call.dawdle),
        slot_(*call.state_slot),
        tag_(__ldcg(call.memory.tag)) {
    if (slot_ >= call.state_slots) slot_ = -1;
  }

  __device__ __forceinline__ void run() {
    for (int layer = 0; layer < call_.layers; ++layer) {
      const MambaTokenLayer& l = layers_[layer];
      const PairRange pairs = channels_.pairs(call_.half_shape);
      first_ = 2 * pairs.begin;
      count_ = 2 * pairs.count();
      convolve(layer, l);
      handover_.dawdle();
      barrier_.arrive(kTokenThreads - 32);  // by a warp that seldom has a row of the next round
      ++tag_;
      gate_and_scan(layer, l);
      channels_.next_layer(call_.half_shape);
      stage_gated();
      clear_sums(layer);
      multiply(call_.out_shape, share_, [&](int pair, float2 v) {
        handover_.dawdle();
        if (threadIdx.x % 32 != 0) return;
        if (l.out_bias != nullptr) v.x += weight(l.out_bias, 2 * pair), v.y += weight(l.out_bias, 2 * pair + 1);
        send_pair<T>(call_.memory.out + pair, v.x, v.y, tag_);
      });
    }
    let_next_start();
    // All blocks have read the last tag: they have arrived at a barrier since.
    if (blockIdx.x == 0 && threadIdx.x == 0) *call_.memory.tag = tag_;
    stage_stream(call_.layers, call_.final_norm, [] {});
    multiply(call_.head_shape, share_, [&](int pair, float2 v) {
      const int lane = static_cast<int>(threadIdx.x % 32), feature = 2 * pair + lane;
      if (lane < 2 && feature < call_.vocabulary) call_.logits[feature] = lane == 0 ? v.x : v.y;
    });
    barrier_.finish();
  }

 private:
  static __device__ __forceinline__ float weight(const void* from, int i) {
    return to_float(static_cast<const T*>(from)[i]);
  }
  static __device__ __forceinline__ float rounded(float v) { return to_float(from_float<T>(v)); }

  // The next product, of the staged x; finish(pair, values) by all lanes of a warp.
  template <class Share, class Finish>
  __device__ __forceinline__ void multiply(const DividedShape& s, Share& share, const Finish& finish) {
    multiply_product<2>(s, x_, ring_, place_, share, handover_, finish);
  }

  // The stream before layer `layer`, normed, as the input of a product: the embedding, or the output of the last layer
  // and the residual, which every block keeps. then(): after the stream has arrived, before a barrier of the block.
  template <class Then>
  __device__ __forceinline__ void stage_stream(int layer, const void* norm, const Then& then) {
    const int at = static_cast<int>(threadIdx.x) * 8;
    const bool inside = at < call_.hidden;
    Pack8<T> v[1] = {}, weights = {};
    if (inside) weights = *reinterpret_cast<const Pack8<T>*>(static_cast<const T*>(norm) + at);
    if (layer > 0) {
      receive(
          call_.memory.out, tag_, call_.hidden, [&](int) { return at; }, v);
      add_pack(v[0], residual_);
    } else if (inside) {
      const int64_t id = *call_.id;
      // An id outside the vocabulary has an embedding of zeros, as in the operator.
      if (id >= 0 && id < call_.vocabulary)
        v[0] = load_shared_by_all(static_cast<const T*>(call_.embedding) + id * call_.hidden + at);
    }
    residual_ = v[0];
    then();
    stage_normed(v[0], weights, call_.hidden, call_.eps, fixed_.sums[layer % 2], x_);
  }

  // This layer's sums of parameters. The next layer has others, so that these can be cleared meanwhile.
  __device__ __forceinline__ unsigned long long* sums_of(int layer) const {
    return call_.memory.sums + layer % 2 * call_.sums_of_layer();
  }

  // After the gated results of all blocks have arrived: all have read the sums. They are added to again after the next
  // barrier.
  __device__ __forceinline__ void clear_sums(int layer) const {
    for (int i = static_cast<int>(blockIdx.x * kTokenThreads + threadIdx.x); i < call_.sums_of_layer();
         i += static_cast<int>(gridDim.x) * kTokenThreads)
      __stcg(sums_of(layer) + i, 0ull);
  }

  __device__ __forceinline__ void convolve(int layer, const MambaTokenLayer& l) {
    const int64_t of_window = static_cast<int64_t>(call_.width - 1) * call_.channels;
    const Convolution convolution{slot_ < 0 ? nullptr : static_cast<T*>(call_.states[layer].window) + of_window * slot_,
                                  l.conv_weight, l.conv_bias, call_.channels, call_.width};
    const Convolution::Loaded loaded = convolution.load(first_, count_, 0);
    const ParameterTerms<T> terms(call_, l.x_proj, first_, count_);
    stage_stream(layer, l.norm, [&] { convolution.keep(fixed_.convolution, loaded); });
    multiply(call_.half_shape, channels_, [&](int pair, float2 v) {
      const int lane = static_cast<int>(threadIdx.x % 32), channel = 2 * pair + lane;
      if (lane >= 2) return;
      float x = lane == 0 ? v.x : v.y;
      if (l.in_bias != nullptr) x += weight(l.in_bias, channel);
      fixed_.u[channel - first_] = rounded(convolution.finish(fixed_.convolution, channel - first_, channel, x));
    });
    if (count_ == 0) return;
    meet();
    terms.add(call_, fixed_.u, sums_of(layer));
  }

  // After the block has arrived at the barrier: the other half of in_proj first, meanwhile the others arrive. Half of
  // the warps read the parameters after its first round; the second has fewer rows, often none for these warps.
  __device__ __forceinline__ void gate_and_scan(int layer, const MambaTokenLayer& l) {
    if (count_ == 0) {
      barrier_.wait();
      return;
    }
    const ScanInputs inputs = load_scan(l, call_.states[layer]);
    auto read_parameters = [&] {
      constexpr int kReading = kTokenThreads / 2;
      if (threadIdx.x < kTokenThreads - kReading) return;
      barrier_.wait_of_warp();
      handover_.dawdle();
      for (int i = static_cast<int>(threadIdx.x) - (kTokenThreads - kReading); i < call_.parameters(); i += kReading)
        fixed_.parameters[i] = sum_parameter<T>(call_, sums_of(layer), i);
    };
    const RoundsAndThen<decltype(read_parameters)> rounds{channels_, read_parameters};
    multiply(call_.half_shape, rounds, [&](int pair, float2 v) {
      const int lane = static_cast<int>(threadIdx.x % 32), channel = 2 * pair + lane;
      if (lane >= 2) return;
      float gate = lane == 0 ? v.x : v.y;
      if (l.in_bias != nullptr) gate += weight(l.in_bias, call_.channels + channel);
      fixed_.gate[channel - first_] = rounded(gate);
    });
    meet();
    scan(l, inputs);
  }

  // Eight threads have a channel. All is loaded before the product that comes first.
  __device__ __forceinline__ ScanInputs load_scan(const MambaTokenLayer& l, const MambaTokenStates& states) const {
    const int thread = static_cast<int>(threadIdx.x), own = thread / kChannelLanes, lane = thread % kChannelLanes;
    const int64_t channel = first_ + own;
    ScanInputs in;
    in.state = in.rate = make_float2(0, 0);
    in.skip = in.dt_bias = 0;
    in.at = nullptr;
#pragma unroll
    for (int i = 0; i < kRankPacks; ++i) {
      const int k = (i * kChannelLanes + lane) * 8;
      in.dt_proj[i] = make_uint4(0, 0, 0, 0);
      if (own < count_ && k < call_.rank)
        in.dt_proj[i] = load_early(static_cast<const T*>(l.dt_proj) + channel * call_.rank + k);
    }
    if (own >= count_) return in;
    const int64_t first_state = channel * kMambaStates + 2 * lane;
    if (slot_ >= 0) {
      in.at = reinterpret_cast<float2*>(states.scan + static_cast<int64_t>(slot_) * call_.channels * kMambaStates +
                                        first_state);
      in.state = __ldcs(in.at);
    }
    const auto logs = *reinterpret_cast<const Pack<T, 2>*>(static_cast<const T*>(l.A_log) + first_state);
    in.rate = make_float2(to_float(logs.at[0]), to_float(logs.at[1]));
    in.skip = weight(l.skip, static_cast<int>(channel));
    in.dt_bias = weight(l.dt_bias, static_cast<int>(channel));
    return in;
  }

  __device__ __forceinline__ void scan(const MambaTokenLayer& l, const ScanInputs& in) {
    const int thread = static_cast<int>(threadIdx.x), own = thread / kChannelLanes, lane = thread % kChannelLanes;
    if (call_.inner_norms) {
      norm_parameters<T>(call_, l, fixed_.parameters);
      meet();
    }
    const bool exists = own < count_;
    float before = 0;
#pragma unroll
    for (int i = 0; i < kRankPacks; ++i) {
      const int k = (i * kChannelLanes + lane) * 8;
      if (k < call_.rank) before = multiply_eight<T>(in.dt_proj[i], fixed_.parameters + k, before);
    }
    before = rounded(sum_of_eight(before)) + in.dt_bias;
    const float dt = fmaxf(before, 0.0f) + log1pf(expf(-fabsf(before)));  // softplus
    const float u = exists ? fixed_.u[own] : 0.0f, input = dt * u;
    const float* b = fixed_.parameters + call_.rank + 2 * lane;
    const float* c = b + kMambaStates;
    float2 h = in.state;
    h.x = fmaf(exp2f(dt * (-expf(in.rate.x) * kLog2Of)), h.x, input * b[0]);
    h.y = fmaf(exp2f(dt * (-expf(in.rate.y) * kLog2Of)), h.y, input * b[1]);
    const float y = fmaf(in.skip, u, sum_of_eight(fmaf(h.x, c[0], h.y * c[1])));
    if (in.at != nullptr) *in.at = h;
    handover_.dawdle();
    const float gated = exists ? y * silu(fixed_.gate[own]) : 0.0f;
    const float of_next = __shfl_xor_sync(kAllLanes, gated, kChannelLanes);
    if (exists && thread % (2 * kChannelLanes) == 0)
      send_pair<T>(call_.memory.gated + (first_ + own) / 2, gated, of_next, tag_);
  }

  __device__ __forceinline__ void stage_gated() {
    auto at = [](int j) { return static_cast<int>(threadIdx.x + j * kTokenThreads) * 8; };
    Pack8<T> values[kGatedPacks] = {};
    receive(call_.memory.gated, tag_, call_.channels, at, values);
    meet();  // all warps are done with x
#pragma unroll
    for (int j = 0; j < kGatedPacks; ++j)
      if (at(j) < whole_steps(call_.channels)) *reinterpret_cast<Pack8<T>*>(x_ + at(j)) = values[j];
    meet();
  }

  const MambaTokenCall& call_;
  const MambaTokenLayer* layers_;
  MambaFixed& fixed_;
  T* x_;
  const WeightRing& ring_;
  GridBarrier barrier_;
  PairShare share_;
  ChannelShare channels_;
  RingPlace place_;
  Handover handover_;
  int slot_;      // of the states; negative: the sequence has none
  uint32_t tag_;  // of this layer
  Pack8<T> residual_ = {};
  int first_ = 0, count_ = 0;  // channels of this block
};

template <class Handover>
__global__ void __launch_bounds__(kLaunchThreads, 1) mamba_token_kernel(const __grid_constant__ MambaTokenCall call) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) std::byte mamba_shared[];
  const MambaMemory memory(call, mamba_shared);
  // The layers are copied to shared memory, so that reading them is fast.
  const auto* from = reinterpret_cast<const uint64_t*>(call.of_layers);
  auto* to = reinterpret_cast<uint64_t*>(memory.layers);
  const int words = call.layers * static_cast<int>(sizeof(MambaTokenLayer) / sizeof(uint64_t));
  for (int i = static_cast<int>(threadIdx.x); i < words; i += kLaunchThreads) to[i] = from[i];
  if (threadIdx.x == 0) memory.ring.start(Handover::kArrivals);
  __syncthreads();
  if (threadIdx.x >= kTokenThreads) {
    give_back_registers<kFetchingRegisters>();
    PairShare share;
    ChannelShare channels;
    ChunkQueue<Handover> queue(memory.ring, call.dawdle);
    auto fetch = [&](const DividedShape& s, const void* matrix, auto& in) {
      fetch_product<T>(s, s, matrix, in, queue, CopyWeights{});
    };
    const DividedShape& half = call.half_shape;
    for (int layer = 0; layer < call.layers; ++layer) {
      const T* in_proj = static_cast<const T*>(memory.layers[layer].in_proj);
      fetch(half, in_proj, channels);
      fetch(half, in_proj + static_cast<int64_t>(half.features) * half.length, channels);
      channels.next_layer(half);
      fetch(call.out_shape, memory.layers[layer].out_proj, share);
    }
    fetch(call.head_shape, call.head, share);
    queue.finish();
  } else {
    take_registers<kComputingRegisters>();
    MambaBlock<Handover> block(call, memory);
    block.run();
  }
#endif
}

int scratch_bytes_of(const MambaTokenCall& call) {
  return whole_steps(std::max(call.half_shape.length, call.out_shape.length)) * static_cast<int>(sizeof(T));
}

int ring_slots_of(const MambaTokenCall& call) {
  const size_t beside = MambaMemory::beside_ring(call);
  if (shared_memory_of_block() < beside) return 0;
  return static_cast<int>(std::min<size_t>(kMostSlots, (shared_memory_of_block() - beside) / kSlotBytes));
}

template <class Handover>
void start(const MambaTokenCall& call, void* stream) {
  auto* kernel = mamba_token_kernel<Handover>;
  const size_t shared = MambaMemory::beside_ring(call) + static_cast<size_t>(call.ring_slots) * kSlotBytes;
  static size_t allowed = 0;
  if (shared > allowed) allow_shared_memory("mamba_token", kernel, allowed = shared);
  launch("mamba_token", kernel,
         LaunchShape{.grid = static_cast<unsigned>(token_device().multiprocessors),
                     .block = kLaunchThreads,
                     .shared_bytes = shared,
                     .cooperative = true},
         stream, call);
}

}  // namespace

std::string_view mamba_token_refusal(const MambaTokenCall& given) {
  MambaTokenCall call = given;
  call.scratch_bytes = scratch_bytes_of(call);
  if (!token_device().cooperative || !has_hopper_launches()) return "it needs a Hopper GPU or a later one";
  if (call.layers < 1 || call.layers > kMostMambaLayers) return "it takes 1 to 96 layers";
  if (call.hidden > kMostStream || call.hidden % 8 != 0) return "the hidden size must be a multiple of 8, at most 4096";
  if (call.width > kMostConvolutionWidth) return "the convolution may reach over 4 tokens at most";
  if (call.channels > kGatedPacks * 8 * kTokenThreads || call.channels % kUnitChannels != 0)
    return "channels must be a multiple of 8, at most 8192";
  if (call.rank > kMostRank || call.rank % 8 != 0) return "the time step's rank must be a multiple of 8, at most 256";
  if (call.parameters() > kMostParameters) return "x_proj may have 320 rows at most";
  const int blocks = token_device().multiprocessors;
  if (blocks > kMostAdders || most_channels_of_block(call.channels, blocks) > kMostBlockChannels)
    return "a block has at most 64 channels, and there are at most 256 blocks";
  if (ring_slots_of(call) < kFewestSlots) return "a multiprocessor has too little shared memory for such a model";
  return {};
}

void mamba_token(const MambaTokenCall& given, void* stream) {
  MambaTokenCall call = given;
  call.scratch_bytes = scratch_bytes_of(call);
  call.ring_slots = ring_slots_of(call);
  const int blocks = token_device().multiprocessors;
  call.half_shape.division = divide_channels(call.channels, call.half_shape.length, blocks);
  for (DividedShape* shape : {&call.out_shape, &call.head_shape})
    shape->division = divide_pairs(pairs_of(*shape), shape->length, blocks);
  with_handover(call, [&](auto handover, const MambaTokenCall& in_mode) {
    start<typename decltype(handover)::type>(in_mode, stream);
  });
}

}  // namespace fk::cuda
