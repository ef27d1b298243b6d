// As in stream.cu, rows of a matrix go from memory to registers, 16 at a time, and to mma.m16n8k16. Of its 8 columns
// one is used: the memory is what limits. A block has one tile of rows. Where few tiles would leave multiprocessors
// idle at the end, blocks are as many as run at once, with equal shares of the rows; the first loads of a tile are on
// their way while the sums of the one before it are added up.
#include "backend/cuda/experts/one_token.h"

#include <algorithm>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/multiprocessors.h"
#include "backend/cuda/device/term_sums.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/l1/activations.cuh"
#include "backend/cuda/l1/expert_choice.cuh"
#include "backend/cuda/l1/packs.cuh"
#include "backend/cuda/l1/swigluoai.cuh"
#include "core/check.h"

namespace fk::cuda {
namespace {

constexpr int kExpertTile = 16;             // rows of a matrix that a block multiplies at once
constexpr int kGateTile = kExpertTile / 2;  // features of a gated product: a gate row and an up row each
constexpr int kStep = 32;                   // elements of a row that four threads load at once: 64 bytes
constexpr int kStepsAtOnce = 4;             // of a warp
constexpr int kRun = kStepsAtOnce * kStep;  // elements of its 16 rows that a warp loads at once
constexpr int kGateWarps = 8;               // of a block
constexpr int kGateBlocks = 2;              // on a multiprocessor
// Experts that a lane compares, where the kernels make the choice; 0: they do not.
constexpr int kGiven = 0, kFew = 4, kMany = 16;
constexpr int kMostRouted = 32 * kMany, kMostChosen = 32;
// The most warps of a block of one_token_down, which has a multiprocessor to itself. Threads that also make the choice
// need a few more registers. A token of Gemma 4 took 2.77 ms instead of 2.71 when few experts, too, were chosen by
// best_of_held, with 15 warps.
template <int kEach, bool kStream>
constexpr int kMostDownWarps = kEach == kGiven ? 16 : (kEach == kFew || kStream ? 12 : 15);

__device__ __forceinline__ uint4 load_expert_row(const void* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

// One warp's share of the product of 16 rows of a matrix and x: the runs `first`, first + stride, ... of their length.
// Lane l has rows l / 4 and l / 4 + 8 and elements 8 * (l % 4) of every 32.
template <class T>
class RowsTimesVector {
 public:
  __device__ RowsTimesVector(int length, int first, int stride)
      : length_(length),
        in_step_(8 * (static_cast<int>(threadIdx.x) % 4)),
        first_(first * kRun),
        stride_(stride * kRun) {}

  // Of the rows that begin next.
  __device__ __forceinline__ void set_length(int length) { length_ = length; }

  // Begins with the first loads of new rows; null: zeros. x need not be known yet.
  __device__ __forceinline__ void begin(const T* low, const T* high) {
    low_ = low;
    high_ = high;
    load(buffer_[0], first_);
  }

  // The sums of rows l / 4 and l / 4 + 8 are in lanes whose number is a multiple of 4.
  __device__ __forceinline__ float2 multiply(const T* x) {
    const bool has_x = threadIdx.x % 32 < 4;  // column 0 of the product; the other columns are zero
    float sum[4] = {};
    int at = first_;
    while (at < length_) {
      load(buffer_[1], at + stride_);
      add(sum, buffer_[0], has_x ? x : nullptr, at);
      at += stride_;
      if (at >= length_) break;
      load(buffer_[0], at + stride_);
      add(sum, buffer_[1], has_x ? x : nullptr, at);
      at += stride_;
    }
    return {sum[0], sum[2]};
  }

 private:
  struct Buffer {
    uint4 low[kStepsAtOnce], high[kStepsAtOnce];
  };

  __device__ __forceinline__ void load(Buffer& to, int at) {
#pragma unroll
    for (int i = 0; i < kStepsAtOnce; ++i) {
      const int k = at + i * kStep + in_step_;
      to.low[i] = low_ != nullptr && k < length_ ? load_expert_row(low_ + k) : uint4{0, 0, 0, 0};
      to.high[i] = high_ != nullptr && k < length_ ? load_expert_row(high_ + k) : uint4{0, 0, 0, 0};
    }
  }

  __device__ __forceinline__ void add(float (&sum)[4], const Buffer& w, const T* x, int at) {
#pragma unroll
    for (int i = 0; i < kStepsAtOnce; ++i) {
      const int k = at + i * kStep + in_step_;
      uint4 v{0, 0, 0, 0};
      if (x != nullptr && k < length_) v = *reinterpret_cast<const uint4*>(x + k);
      multiply_tile<T>(sum, w.low[i].x, w.high[i].x, w.low[i].y, w.high[i].y, v.x, v.y);
      multiply_tile<T>(sum, w.low[i].z, w.high[i].z, w.low[i].w, w.high[i].w, v.z, v.w);
    }
  }

  const T *low_ = nullptr, *high_ = nullptr;
  int length_, in_step_, first_, stride_;
  Buffer buffer_[2];
};

// One divided by the root of the mean square of a stream. By all lanes of a warp.
__device__ __forceinline__ float stream_scale(const RoutedStream& s) {
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < squares_of_stream(s.hidden); i += 32)
    squares += __ldcg(s.squares + i);
  return 1.0f / sqrtf(reduce_warp<Sum>(squares) / static_cast<float>(s.hidden) + s.eps);
}

// What a launch needs: which experts were chosen, or also their weights.
enum class Choice : uint8_t { kExperts, kExpertsAndWeights };

// The experts of the token: as given, or by the router's logits. kStream: the logits are the sums of
// c.routed_stream.
template <class T, int kEach, bool kStream>
struct ChosenExperts {
  const int32_t* ids;
  const float* weights;
  const float* gate;  // logit of the dense block's gate
  float scale_of_all = 1;

  // Ends with a barrier of the block, before which it calls beside(): one warp makes the choice meanwhile.
  template <Choice kChoice, class Beside>
  __device__ __forceinline__ void choose(const OneTokenExperts& c, const Beside& beside) {
    ids = c.ids;
    weights = c.weights;
    gate = c.dense_gate;
    if constexpr (kEach > kGiven) {
      __shared__ int32_t own_ids[kMostChosen];
      __shared__ float own_weights[kMostChosen];
      __shared__ float own_gate, own_scale;
      __shared__ unsigned long long own_unusual;
      __shared__ float own_logits[kStream ? kMostRouted + 1 : 1];
      ids = own_ids;
      weights = own_weights;
      if constexpr (kStream) {
        gate = &own_gate;
        // The scale and the count of unusual terms are read once a block: when every warp read them, the choice took
        // 6 us.
        const int thread = static_cast<int>(threadIdx.x);
        auto read_logits = [&](unsigned long long unusual) {
          for (int i = thread; i <= c.experts; i += static_cast<int>(blockDim.x))
            own_logits[i] = sum_of_terms(c.routed_stream.sums, c.routed_stream.places(), i, unusual);
        };
        if (thread < 32) {
          const float scale = stream_scale(c.routed_stream);
          if (thread == 0) own_scale = scale;
        }
        if (thread == static_cast<int>(blockDim.x) - 1)
          own_unusual = unusual_terms(c.routed_stream.sums, c.routed_stream.places());
        read_logits(0);
        __syncthreads();
        if (own_unusual != 0) {
          read_logits(own_unusual);
          __syncthreads();
        }
        scale_of_all = own_scale;
        if (thread == 0) own_gate = own_logits[c.experts] * scale_of_all;
      }
      if (threadIdx.x < 32)
        choose_by<kChoice == Choice::kExpertsAndWeights>(c, own_logits, scale_of_all, own_ids, own_weights);
      beside();
      __syncthreads();
    }
  }

  // Ids outside the experts would be read outside the matrices.
  __device__ __forceinline__ int of(const OneTokenExperts& c, int pair) const {
    return min(max(ids[pair], 0), c.experts - 1);
  }

 private:
  // By one warp; lane j keeps the j-th. Sums of a stream are compared as they are, before the division, so that both
  // launches make the same choice.
  template <bool kWeights>
  static __device__ __forceinline__ void choose_by(const OneTokenExperts& c, const float* sums, float scale_of_all,
                                                   int32_t* to_ids, float* to_weights) {
    const int lane = static_cast<int>(threadIdx.x);
    HeldKeys<kEach> keys;
    auto logit_of = [&](int i) { return kStream ? sums[i] : __ldcg(c.logits + i) * c.logit_scale; };
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      keys.at[i] = lane + 32 * i < c.experts ? order_key(logit_of(lane + 32 * i)) : kTaken;
    HeldKeys<kEach> left = keys;
    Best own{0, 0};
    if constexpr (kEach == kFew) {
      for (int j = 0; j < c.top_k; ++j) {
        const Best best = left.take_best();
        if (lane == j) own = best;
      }
    } else {
      __shared__ CandidateKeys candidates;
      own = best_of_held(left, c.top_k, candidates);
    }
    if (lane < c.top_k) to_ids[lane] = own.index;
    if constexpr (!kWeights) return;
    const float logit = from_order_key(own.key) * scale_of_all, largest = __shfl_sync(kAllLanes, logit, 0);
    const float exponential = lane < c.top_k ? expf(logit - largest) : 0.0f;
    float sum = exponential;
    if (c.softmax_of_all) {
      sum = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        if (keys.at[i] != kTaken) sum += expf(from_order_key(keys.at[i]) * scale_of_all - largest);
    }
    sum = reduce_warp<Sum>(sum);
    if (lane >= c.top_k) return;
    const auto* scale = static_cast<const T*>(c.expert_scale);
    to_weights[lane] = exponential / sum * (scale != nullptr ? to_float(scale[own.index]) : 1.0f);
  }
};

// Of sums with their bias. Rounded first, as the result of a separate product would be.
template <class T, ExpertGate kGate>
__device__ __forceinline__ float gated_value(const OneTokenExperts& c, float gate, float up) {
  gate = to_float(from_float<T>(gate));
  up = to_float(from_float<T>(up));
  if constexpr (kGate == ExpertGate::kSwigluOAI)
    return swigluoai<T>(gate, up, {c.alpha, c.limit});
  else if constexpr (kGate == ExpertGate::kGeluTanh)
    return GeluTanh::of<T>(gate) * up;
  else
    return Silu::of<T>(gate) * up;
}

// The rows that experts multiply, where the norm is still to be applied: a thread has some packs of the stream, the
// first of which is loaded early.
template <class T>
class NormedStream {
 public:
  static constexpr int N = kPackElements<T>;

  // Before the wait.
  __device__ __forceinline__ explicit NormedStream(const RoutedStream& s) : s_(s) {
    if (at(0) < s.hidden) weight_ = load_pack<T, N>(static_cast<const T*>(s.norm) + at(0));
  }
  __device__ __forceinline__ void load() {
    if (at(0) < s_.hidden) first_ = load(at(0));
  }
  // To shared memory; a barrier of the block must follow.
  __device__ __forceinline__ void put(T* to, float scale) const {
    for (int j = 0; at(j) < s_.hidden; ++j) {
      Pack<T, N> v = j == 0 ? first_ : load(at(j));
      const Pack<T, N> weight = j == 0 ? weight_ : load_pack<T, N>(static_cast<const T*>(s_.norm) + at(j));
#pragma unroll
      for (int k = 0; k < N; ++k)
        v.at[k] = from_float<T>(to_float(v.at[k]) * scale * (to_float(weight.at[k]) + s_.norm_offset));
      store_pack<T, N>(to + at(j), v);
    }
  }

 private:
  static __device__ __forceinline__ int at(int j) { return static_cast<int>(threadIdx.x + j * blockDim.x) * N; }
  __device__ __forceinline__ Pack<T, N> load(int at) const {
    return load_pack<T, N>(static_cast<const T*>(s_.stream) + at);
  }

  const RoutedStream& s_;
  Pack<T, N> weight_, first_;
};

// The features of all experts of the token follow each other; a block has `share` of them, of two experts where these
// meet. Blocks from `expert_blocks` on have features of the block beside the experts, whose rows need no choice.
template <class T, ExpertGate kGate, int kEach, bool kStream>
__global__ void __launch_bounds__(32 * kGateWarps, kGateBlocks)
    one_token_gate_up(const __grid_constant__ OneTokenExperts c, const int share, const int expert_blocks) {
  extern __shared__ __align__(16) unsigned char gate_shared[];
  __shared__ float parts[2][kGateWarps][kExpertTile];  // of tiles in turn
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const bool is_dense = kStream && static_cast<int>(blockIdx.x) >= expert_blocks;
  const int features = is_dense ? c.dense_features : c.features;
  const int begin = (static_cast<int>(blockIdx.x) - (is_dense ? expert_blocks : 0)) * share;
  const int end = min(begin + share, is_dense ? features : c.top_k * features);
  ChosenExperts<T, kEach, kStream> chosen;
  auto gate_row = [&](int feature) { return kGate == ExpertGate::kSwigluOAI ? 2 * feature : feature; };
  auto up_row = [&](int feature) { return kGate == ExpertGate::kSwigluOAI ? 2 * feature + 1 : feature + features; };
  auto first_row = [&](int place) {
    return is_dense ? 0 : static_cast<int64_t>(chosen.of(c, place / features)) * 2 * features;
  };
  RowsTimesVector<T> rows(c.hidden, warp, kGateWarps);
  auto begin_tile = [&](int first) {
    const int place = first + lane / 4;
    if (place >= end) return rows.begin(nullptr, nullptr);
    const T* matrix = static_cast<const T*>(is_dense ? c.dense_gate_up : c.gate_up) + first_row(place) * c.hidden;
    const int feature = place % features;
    rows.begin(matrix + static_cast<int64_t>(gate_row(feature)) * c.hidden,
               matrix + static_cast<int64_t>(up_row(feature)) * c.hidden);
  };
  const T* x = static_cast<const T*>(c.x);
  if constexpr (kStream) {
    NormedStream<T> normed(c.routed_stream);
    if (is_dense) begin_tile(begin);
    wait_for_previous();
    normed.load();
    T* to = reinterpret_cast<T*>(gate_shared);
    x = to;
    if (is_dense) {
      normed.put(to, stream_scale(c.routed_stream));
      __syncthreads();
    } else {
      chosen.template choose<Choice::kExperts>(c, [&] { normed.put(to, chosen.scale_of_all); });
      begin_tile(begin);
    }
    // Not earlier: blocks of the next kernel read the same sums as soon as they start, which would delay our reads.
    let_next_start();
  } else {
    // In this order: the next kernel reads the ids, or the logits, before it waits for this one.
    wait_for_previous();
    let_next_start();
    chosen.template choose<Choice::kExperts>(c, [] {});
    if (begin < end) begin_tile(begin);
  }
  for (int first = begin, half = 0; first < end; first += kGateTile, half ^= 1) {
    const float2 sums = rows.multiply(x);
    if (first + kGateTile < end) begin_tile(first + kGateTile);
    if (lane % 4 == 0) {
      parts[half][warp][lane / 4] = sums.x;
      parts[half][warp][lane / 4 + kGateTile] = sums.y;
    }
    __syncthreads();
    const int in_tile = static_cast<int>(threadIdx.x), place = first + in_tile;
    if (in_tile >= kGateTile || place >= end) continue;
    auto total = [&](int of_tile, int row) {
      float all = c.gate_up_bias == nullptr || is_dense
                      ? 0
                      : to_float(static_cast<const T*>(c.gate_up_bias)[first_row(place) + row]);
#pragma unroll
      for (int w = 0; w < kGateWarps; ++w) all += parts[half][w][of_tile];
      return all;
    };
    const int feature = place % features;
    static_cast<T*>(is_dense ? c.dense_between : c.between)[place] = from_float<T>(
        gated_value<T, kGate>(c, total(in_tile, gate_row(feature)), total(in_tile + kGateTile, up_row(feature))));
  }
}

// A block has `share` rows of the result. A warp has one expert of the token, or one of `splits` parts of its length;
// with many experts, several of them in turn. The product beside the experts is cut into pieces of an expert's length,
// which come after the experts.
template <class T, int kEach, bool kStream>
__global__ void __launch_bounds__(32 * kMostDownWarps<kEach, kStream>, 1)
    one_token_down(const __grid_constant__ OneTokenExperts c, const int splits, const int share) {
  constexpr bool kRouted = kEach > kGiven;
  __shared__ float parts[2][kMostDownWarps<kEach, kStream>][kExpertTile];  // of turns
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, at_once = static_cast<int>(blockDim.x) / 32 / splits;
  const int begin = static_cast<int>(blockIdx.x) * share, end = min(begin + share, c.hidden);
  RowsTimesVector<T> rows(c.features, warp % splits, splits);
  ChosenExperts<T, kEach, kStream> chosen;
  chosen.template choose<Choice::kExpertsAndWeights>(c, [] {});
  const int dense = kRouted && c.dense_down != nullptr ? c.dense_features : 0;
  const int all_pairs = c.top_k + (kRouted ? (dense + c.features - 1) / c.features : 0);
  auto begin_tile = [&](int first, int pair) {
    if (pair >= all_pairs) return;
    const bool is_dense = kRouted && pair >= c.top_k;
    const int from = is_dense ? (pair - c.top_k) * c.features : 0, length = is_dense ? dense : c.features;
    const T* matrix =
        is_dense ? static_cast<const T*>(c.dense_down) + from
                 : static_cast<const T*>(c.down) + static_cast<int64_t>(chosen.of(c, pair)) * c.hidden * c.features;
    if constexpr (kRouted) rows.set_length(min(c.features, length - from));
    auto row = [&](int at) { return at < end ? matrix + static_cast<int64_t>(at) * length : nullptr; };
    rows.begin(row(first + lane / 4), row(first + lane / 4 + 8));
  };
  int first = begin, pairs = 0;  // of this turn: rows, and experts
  // The ids, or the logits, are read before the wait: one_token_gate_up, which must be the launch before this one, has
  // waited for them before it let this one start.
  if (first < end) begin_tile(first, warp / splits);
  wait_for_previous();
  let_next_start();
  float out = 0, dense_out = 0;  // of row `first` + the thread's number
  for (int half = 0; first < end; half ^= 1) {
    const int pair = pairs + warp / splits;
    float2 sums{0, 0};
    const T* x = kRouted && pair >= c.top_k
                     ? static_cast<const T*>(c.dense_between) + static_cast<int64_t>(pair - c.top_k) * c.features
                     : static_cast<const T*>(c.between) + static_cast<int64_t>(pair) * c.features;
    if (pair < all_pairs) sums = rows.multiply(x);
    const bool last_pairs = pairs + at_once >= all_pairs;
    const int next_first = last_pairs ? first + kExpertTile : first, next_pairs = last_pairs ? 0 : pairs + at_once;
    if (next_first < end) begin_tile(next_first, next_pairs + warp / splits);
    if (lane % 4 == 0) {
      parts[half][warp][lane / 4] = sums.x;
      parts[half][warp][lane / 4 + 8] = sums.y;
    }
    __syncthreads();
    const int row = first + static_cast<int>(threadIdx.x);
    if (threadIdx.x < kExpertTile && row < end) {
      for (int i = 0; i < at_once && pairs + i < all_pairs; ++i) {
        float value = 0;
        const bool is_dense = kRouted && pairs + i >= c.top_k;
        if (c.down_bias != nullptr && !is_dense)
          value = to_float(
              static_cast<const T*>(c.down_bias)[static_cast<int64_t>(chosen.of(c, pairs + i)) * c.hidden + row]);
        for (int part = 0; part < splits; ++part) value += parts[half][i * splits + part][threadIdx.x];
        // Rounded, as moe_sum reads it.
        if (is_dense)
          dense_out += value;
        else
          out = fmaf(chosen.weights[pairs + i], to_float(from_float<T>(value)), out);
      }
      if (last_pairs) {
        if (kRouted && chosen.gate != nullptr)  // both rounded, as sigmoid_mul_add reads them
          out =
              fmaf(to_float(from_float<T>(dense_out)),
                   1.0f / (1.0f + expf(-(kStream ? *chosen.gate : __ldcg(chosen.gate)))), to_float(from_float<T>(out)));
        else if (dense > 0)
          static_cast<T*>(c.dense_out)[row] = from_float<T>(dense_out);
        static_cast<T*>(c.out)[row] = from_float<T>(out);
        out = dense_out = 0;
      }
    }
    first = next_first;
    pairs = next_pairs;
  }
}

template <class T, int kEach, bool kStream>
void launch_one_token(const OneTokenExperts& c, void* stream) {
  auto share_of = [](int items, int blocks) { return (items + blocks - 1) / blocks; };
  // Large shares were slower on an H200 than a block for each tile, which read neighbouring rows at the same time.
  auto rows_of_block = [&](int items, int blocks, int tile) {
    constexpr int kMostTiles = 3;
    const int share = share_of(items, blocks);
    return share > kMostTiles * tile ? tile : share;
  };
  const int features = c.top_k * c.features, beside = kStream ? c.dense_features : 0,
            gate_share = rows_of_block(features + beside, kGateBlocks * multiprocessors(), kGateTile);
  const unsigned expert_blocks = blocks_for(features, gate_share);
  auto gate_up = [&](auto* kernel) {
    const size_t shared = kStream ? static_cast<size_t>(c.hidden) * sizeof(T) : 0;
    launch("one_token_gate_up", kernel, expert_blocks + blocks_for(beside, gate_share), 32 * kGateWarps, shared, stream,
           c, gate_share, static_cast<int>(expert_blocks));
  };
  if (c.gate == ExpertGate::kSilu)
    gate_up(one_token_gate_up<T, ExpertGate::kSilu, kEach, kStream>);
  else if constexpr (kStream)
    FK_CHECK(false, "experts of a stream have silu");
  else if (c.gate == ExpertGate::kGeluTanh)
    gate_up(one_token_gate_up<T, ExpertGate::kGeluTanh, kEach, kStream>);
  else
    gate_up(one_token_gate_up<T, ExpertGate::kSwigluOAI, kEach, kStream>);
  const int pieces = c.top_k + (c.dense_down != nullptr ? share_of(c.dense_features, c.features) : 0);
  constexpr int kMost = kMostDownWarps<kEach, kStream>;
  const int at_once = std::min(pieces, kMost), runs = share_of(c.features, kRun);
  const int splits = std::clamp(kMost / at_once, 1, runs),
            down_share = rows_of_block(c.hidden, multiprocessors(), kExpertTile);
  launch("one_token_down", one_token_down<T, kEach, kStream>, blocks_for(c.hidden, down_share),
         static_cast<unsigned>(32 * at_once * splits), 0, stream, c, splits, down_share);
}

}  // namespace

std::string_view one_token_experts_refusal(const OneTokenExperts& c) {
  if (c.dtype != DType::kBF16 && c.dtype != DType::kF16) return "it multiplies bf16 and f16";
  auto odd = [](const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 != 0; };
  if (c.hidden % 8 != 0 || c.features % 8 != 0 || odd(c.x) || odd(c.gate_up) || odd(c.down) || odd(c.between))
    return "rows must start on 16 bytes";
  if (c.routed && (c.experts > kMostRouted || c.top_k > kMostChosen))
    return "it chooses at most 32 of at most 512 experts";
  if (c.routed_stream.sums != nullptr && c.gate != ExpertGate::kSilu) return "experts of a stream have silu";
  if (c.dense_features % 8 != 0 || odd(c.dense_down) || odd(c.dense_between) || odd(c.dense_gate_up))
    return "rows must start on 16 bytes";
  return {};
}

void run_one_token_experts(const OneTokenExperts& c, void* stream) {
  auto start = [&]<class T>() {
    if (!c.routed) return launch_one_token<T, kGiven, false>(c, stream);
    if (c.routed_stream.sums != nullptr) return launch_one_token<T, kMany, true>(c, stream);
    return c.experts <= 32 * kFew ? launch_one_token<T, kFew, false>(c, stream)
                                  : launch_one_token<T, kMany, false>(c, stream);
  };
  if (c.dtype == DType::kBF16)
    start.template operator()<__nv_bfloat16>();
  else
    start.template operator()<__half>();
}

}  // namespace fk::cuda
