// The kernel of stream_weights.cu for several products. A block has 16 or 8 rows of one of the matrices, its warps
// split the length, and all it can load before it waits for the previous kernel is in flight by then: two rounds of the
// matrix, and the weights of the prologue.
#include "backend/cuda/matmul/stream_group.h"

#include <iterator>
#include <span>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/l1/activations.cuh"
#include "backend/cuda/matmul/group_prologue.cuh"
#include "backend/cuda/matmul/stream_call.cuh"
#include "backend/cuda/matmul/stream_tuner.h"
#include "core/check.h"

namespace fk::cuda {
namespace {

constexpr int kGroupChunk = 32;  // elements of a row that four threads load at once: 64 bytes
// Shared memory that a block may have on every device with tensor cores for bf16.
constexpr int64_t kMostGroupShared = 99 << 10;

template <int kWarps_, int kTileRows_, int kUnroll_, int kBlocks_, int kTokens_>
struct GroupCut {
  static constexpr int kWarps = kWarps_;        // of a block
  static constexpr int kTileRows = kTileRows_;  // of a matrix, all a block has
  static constexpr int kUnroll = kUnroll_;      // chunks a warp takes at once
  static constexpr int kBlocks = kBlocks_;      // on a multiprocessor at once, which limits registers
  static constexpr int kTokens = kTokens_;      // at most
  static constexpr int kRuns = kTileRows / 8;   // rows a thread loads of
  static constexpr int kRound = kWarps * kUnroll * kGroupChunk;
};

__device__ __forceinline__ uint4 load_once(const void* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

template <class T>
__device__ __forceinline__ float activated(GroupActivation activation, float x) {
  if (activation == GroupActivation::kNone) return x;
  x = to_float(from_float<T>(x));
  if (activation == GroupActivation::kTanh) return Tanh::of<T>(x);
  if (activation == GroupActivation::kSigmoid) return Sigmoid::of<T>(x);
  return Relu2::of<T>(x);
}

// The last tokens of sequences, by the first blocks.
template <class T, int kThreads>
__device__ __forceinline__ void store_last_tokens(const GroupCall<T>& c) {
  constexpr int N = kPackElements<T>;
  const int packs = c.stored_width / N;
  for (int item = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x); item < c.tokens * packs;
       item += static_cast<int>(gridDim.x) * kThreads) {
    const int t = item / packs, i = item % packs * N;
    const TokenPlace place = c.store.place(t);
    if (place.last && place.slot >= 0)
      store_pack<T, N>(c.store.state + place.slot * c.store.stride + i,
                       load_pack<T, N>(c.stored + t * c.stored_stride + i));
  }
}

template <class T, PrologueKind kPrologue, class C>
__global__ void __launch_bounds__(32 * C::kWarps, C::kBlocks)
    stream_group_rows(const __grid_constant__ GroupCall<T> c) {
  constexpr int kThreads = 32 * C::kWarps;
  extern __shared__ __align__(16) unsigned char group_shared[];
  __shared__ float parts[C::kWarps][C::kTileRows][kMostGroupTokens + 1];
  __shared__ typename GroupRows<T, kThreads, C::kTokens>::Scratch scratch;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
  int which = 0;
  while (which + 1 < c.count && static_cast<int>(blockIdx.x) >= c.products[which + 1].first_block) ++which;
  const GroupProductCall<T>& p = c.products[which];
  const bool gated = p.gated();
  const int features = gated ? C::kTileRows / 2 : C::kTileRows;  // of this block
  const int first_feature = (static_cast<int>(blockIdx.x) - p.first_block) * features;

  const T* rows[C::kRuns];
#pragma unroll
  for (int h = 0; h < C::kRuns; ++h) {
    // The first half of a gated tile is gate rows, the second half the matching up rows.
    const int in_tile = group + 8 * h, half = in_tile / features;
    const int row = min(first_feature + in_tile % features, p.features - 1) + half * p.features;
    rows[h] = p.weight + static_cast<int64_t>(row) * c.length + 8 * quad;
  }

  uint4 w[2][C::kRuns][C::kUnroll];
  auto load_weights = [&](int buffer, int at) {
#pragma unroll
    for (int u = 0; u < C::kUnroll; ++u) {
      const int k = at + u * kGroupChunk;
      const bool inside = k + 8 * quad < c.length;
#pragma unroll
      for (int h = 0; h < C::kRuns; ++h) w[buffer][h][u] = inside ? load_once(rows[h] + k) : uint4{0, 0, 0, 0};
    }
  };
  int at = warp * C::kUnroll * kGroupChunk;
  load_weights(0, at);
  load_weights(1, at + C::kRound);

  GroupRows<T, kThreads, C::kTokens> shared(reinterpret_cast<T*>(group_shared), scratch, c.tokens, c.length);
  if constexpr (kPrologue != PrologueKind::kNone) shared.copy_weights(kPrologue, c.prologue, p.mixture);
  let_next_start();
  wait_for_previous();
  if constexpr (kPrologue == PrologueKind::kRmsNorm) shared.rms_norm(c.prologue, blockIdx.x == 0);
  if constexpr (kPrologue == PrologueKind::kHeadNorm) shared.head_norm(c.prologue);
  if constexpr (kPrologue == PrologueKind::kShift) shared.shift(c.prologue, blockIdx.x == 0);

  float sum[4] = {};
  const int token = min(group, c.tokens - 1);
  const T* x = (kPrologue != PrologueKind::kNone ? shared.row(token) : p.x + token * p.x_stride) + 8 * quad;
  auto multiply = [&](int buffer, int from) {
#pragma unroll
    for (int u = 0; u < C::kUnroll; ++u) {
      const int k = from + u * kGroupChunk;
      uint4 v{0, 0, 0, 0};
      if (group < c.tokens && k + 8 * quad < c.length) v = *reinterpret_cast<const uint4*>(x + k);
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
  // Two named buffers, not an array: registers cannot be indexed.
  while (at < c.length) {
    multiply(0, at);
    load_weights(0, at + 2 * C::kRound);
    at += C::kRound;
    if (at >= c.length) break;
    multiply(1, at);
    load_weights(1, at + 2 * C::kRound);
    at += C::kRound;
  }

  // Every warp holds a part of each sum.
  if constexpr (C::kTileRows == 16) {
#pragma unroll
    for (int i = 0; i < 4; ++i) parts[warp][group + 8 * (i / 2)][2 * quad + i % 2] = sum[i];
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) parts[warp][2 * quad + i][group] = sum[i];
  }
  __syncthreads();
  auto total = [&](int row, int of_token, int bias) {
    float all = 0;
#pragma unroll
    for (int i = 0; i < C::kWarps; ++i) all += parts[i][row][of_token];
    return p.bias != nullptr ? all + to_float(p.bias[bias]) : all;
  };
  for (int i = threadIdx.x; i < features * c.tokens; i += kThreads) {
    const int in_block = i % features, of_token = i / features, feature = first_feature + in_block;
    if (feature >= p.features) continue;
    float value = total(in_block, of_token, feature);
    if (gated) {
      const float up = total(in_block + features, of_token, feature + p.features);
      value = silu(to_float(from_float<T>(value))) * to_float(from_float<T>(up));
    } else {
      value = activated<T>(p.activation, value);
    }
    p.out[of_token * p.out_stride + feature] = from_float<T>(value);
  }
  if (c.stored != nullptr) store_last_tokens<T, kThreads>(c);
}

template <class T>
const T* start_of(const OptView& v) {
  return v ? static_cast<const T*>(v->data()) : nullptr;
}
int64_t row_distance(const OptView& v) { return v ? v->stride(0) : 0; }

template <class T>
LastTokensCall<T> last_tokens(const LastTokens& given) {
  LastTokensCall<T> c{};
  if (given.batch == nullptr) return c;
  const AttentionMetadata& batch = *given.batch;
  c.state = static_cast<T*>(given.state.data());
  c.stride = given.state.stride(0);
  c.decoding = static_cast<int>(batch.decode.num_tokens);
  c.decode_slots = static_cast<const int32_t*>(batch.decode.state_slots.data());
  if (batch.prefill.num_tokens > 0) {
    c.prefilling = static_cast<int>(batch.prefill.num_sequences);
    c.prefill_slots = static_cast<const int32_t*>(batch.prefill.state_slots.data());
    c.prefill_starts = static_cast<const int32_t*>(batch.prefill.cu_seqlens_q.data());
  }
  return c;
}

PrologueKind kind_of(const StreamGroup& g) { return static_cast<PrologueKind>(g.prologue.index()); }

int64_t head_width(const StreamGroup& g) {
  const auto* heads = std::get_if<HeadNormRows>(&g.prologue);
  return heads != nullptr ? heads->weight.size(0) : 0;
}

// The rows that go into the group: of x, or of the first product.
const View& rows_in(const StreamGroup& g) {
  if (const auto* norm = std::get_if<RmsNormRows>(&g.prologue)) return norm->x;
  if (const auto* heads = std::get_if<HeadNormRows>(&g.prologue)) return heads->x;
  if (const auto* shifted = std::get_if<ShiftedRows>(&g.prologue)) return shifted->x;
  return *g.products.at[0].x;
}

template <class T>
PrologueCall<T> prologue_call(const StreamGroup& g) {
  PrologueCall<T> c{};
  const View& x = rows_in(g);
  c.x = static_cast<const T*>(x.data());
  c.x_stride = x.stride(0);
  auto sums = [&](const auto& p) {
    c.residual = start_of<T>(p.residual);
    c.residual_stride = row_distance(p.residual);
    c.sum_out = const_cast<T*>(start_of<T>(p.sum_out));
    c.sum_stride = row_distance(p.sum_out);
    c.weight = static_cast<const T*>(p.weight.data());
    c.eps = static_cast<float>(p.eps);
  };
  if (const auto* norm = std::get_if<RmsNormRows>(&g.prologue)) sums(*norm);
  if (const auto* heads = std::get_if<HeadNormRows>(&g.prologue)) {
    c.gate = start_of<T>(heads->gate);
    c.gate_stride = row_distance(heads->gate);
    c.weight = static_cast<const T*>(heads->weight.data());
    c.width = static_cast<int>(head_width(g));
    c.eps = static_cast<float>(heads->eps);
  }
  if (const auto* shifted = std::get_if<ShiftedRows>(&g.prologue)) {
    sums(*shifted);
    c.pre_weight = start_of<T>(shifted->pre_weight);
    c.pre_bias = start_of<T>(shifted->pre_bias);
    c.bias = start_of<T>(shifted->bias);
    c.now = static_cast<T*>(shifted->now.data());
    c.now_stride = shifted->now.stride(0);
    c.before = last_tokens<T>(shifted->before);
  }
  return c;
}

template <class T, PrologueKind kPrologue, class C>
void launch_group_cut(const StreamGroup& g, void* stream) {
  GroupCall<T> c{};
  const View& first = rows_in(g);
  c.count = g.products.count;
  c.tokens = static_cast<int>(first.size(0));
  c.length = static_cast<int>(first.size(1));
  c.prologue = prologue_call<T>(g);
  int blocks = 0;
  for (int i = 0; i < c.count; ++i) {
    const GroupedProduct& p = g.products.at[static_cast<size_t>(i)];
    GroupProductCall<T>& call = c.products[i];
    call.x = start_of<T>(p.x);
    call.x_stride = row_distance(p.x);
    call.weight = static_cast<const T*>(p.weight.data());
    call.bias = start_of<T>(p.bias);
    call.mixture = start_of<T>(p.mixture);
    call.out = static_cast<T*>(p.out.data());
    call.out_stride = p.out.stride(0);
    call.features = static_cast<int>(p.out.size(1));
    call.first_block = blocks;
    call.activation = p.activation;
    const int halves = p.activation == GroupActivation::kSiluAndMul ? 2 : 1;
    blocks += static_cast<int>(blocks_for(call.features, C::kTileRows / halves));
  }
  c.stored = start_of<T>(g.stored);
  c.stored_stride = row_distance(g.stored);
  c.stored_width = g.stored ? static_cast<int>(g.stored->size(1)) : 0;
  c.store = last_tokens<T>(g.store);
  const auto shared =
      static_cast<size_t>(group_shared_elements(kPrologue, c.tokens, c.length, c.prologue.width)) * sizeof(T);
  auto* kernel = stream_group_rows<T, kPrologue, C>;
  if constexpr (kPrologue != PrologueKind::kNone) {
    static const bool allowed = (allow_shared_memory("stream_group", kernel, kMostGroupShared), true);
    (void)allowed;
  }
  launch("stream_group", kernel, static_cast<unsigned>(blocks), 32 * C::kWarps, shared, stream, c);
}

using LaunchGroup = void (*)(const StreamGroup&, void*);

template <class T, PrologueKind kPrologue, int kTokens>
std::span<const LaunchGroup> group_cuts() {
  if constexpr (kTokens == 1 || kPrologue == PrologueKind::kNone) {
    static constexpr LaunchGroup kCuts[] = {
        launch_group_cut<T, kPrologue, GroupCut<16, 16, 2, 2, kTokens>>,
        launch_group_cut<T, kPrologue, GroupCut<8, 16, 2, 4, kTokens>>,
        launch_group_cut<T, kPrologue, GroupCut<8, 16, 4, 2, kTokens>>,
        launch_group_cut<T, kPrologue, GroupCut<8, 8, 4, 3, kTokens>>,
    };
    return kCuts;
  } else {
    static constexpr LaunchGroup kCuts[] = {
        launch_group_cut<T, kPrologue, GroupCut<16, 16, 2, 1, kTokens>>,
        launch_group_cut<T, kPrologue, GroupCut<8, 16, 2, 2, kTokens>>,
    };
    return kCuts;
  }
}

template <class T, PrologueKind kPrologue>
std::span<const LaunchGroup> cuts_for(const StreamGroup& g) {
  // Without a prologue the number of tokens changes nothing.
  constexpr int kOne = kPrologue == PrologueKind::kNone ? kMostGroupTokens : 1;
  return rows_in(g).size(0) == 1 ? group_cuts<T, kPrologue, kOne>() : group_cuts<T, kPrologue, kMostGroupTokens>();
}

std::span<const LaunchGroup> cuts_of(const StreamGroup& g) {
  auto typed = [&]<class T>() {
    switch (kind_of(g)) {
      case PrologueKind::kRmsNorm:
        return cuts_for<T, PrologueKind::kRmsNorm>(g);
      case PrologueKind::kHeadNorm:
        return cuts_for<T, PrologueKind::kHeadNorm>(g);
      case PrologueKind::kShift:
        return cuts_for<T, PrologueKind::kShift>(g);
      default:
        return cuts_for<T, PrologueKind::kNone>(g);
    }
  };
  return rows_in(g).dtype() == DType::kBF16 ? typed.template operator()<__nv_bfloat16>()
                                            : typed.template operator()<__half>();
}

}  // namespace

std::string_view stream_group_refusal(const StreamGroup& g) {
  const View& x = rows_in(g);
  if (x.dtype() != DType::kBF16 && x.dtype() != DType::kF16) return "it multiplies bf16 and f16";
  if (x.size(0) > kMostGroupTokens) return "it takes at most 8 rows";
  if (x.size(1) > INT32_MAX / 2) return "the matrix is too large for 32-bit indices";
  auto unfit = [](const OptView& v) { return v && v->data() != nullptr && !rows_fit_packs(*v); };
  bool odd = unfit(x) || unfit(g.stored);
  for (int i = 0; i < g.products.count; ++i) {
    const GroupedProduct& p = g.products.at[static_cast<size_t>(i)];
    odd = odd || unfit(p.weight) || unfit(p.x) || unfit(p.mixture);
  }
  auto sums = [&](const auto& p) { odd = odd || unfit(p.residual) || unfit(p.sum_out) || unfit(p.weight); };
  if (const auto* norm = std::get_if<RmsNormRows>(&g.prologue)) sums(*norm);
  if (const auto* heads = std::get_if<HeadNormRows>(&g.prologue)) {
    odd = odd || unfit(heads->gate) || unfit(heads->weight);
    if (head_width(g) > 32 * kHeadNormPacks * 8) return "heads may have at most 512 channels";
  }
  if (const auto* s = std::get_if<ShiftedRows>(&g.prologue)) {
    sums(*s);
    odd = odd || unfit(s->bias) || unfit(s->pre_weight) || unfit(s->pre_bias);
  }
  if (odd) return "rows must start on 16 bytes";
  const int64_t elements = group_shared_elements(kind_of(g), x.size(0), x.size(1), head_width(g));
  if (elements * 2 > kMostGroupShared) return "the rows do not fit into shared memory";
  return {};
}

int stream_group_cuts(const StreamGroup& g) { return static_cast<int>(cuts_of(g).size()); }

void stream_group_with_cut(const StreamGroup& g, int cut, void* stream) {
  FK_CHECK(rows_in(g).size(0) <= kMostGroupTokens && g.products.count > 0);
  if (rows_in(g).size(0) > 0) cuts_of(g)[static_cast<size_t>(cut)](g, stream);
}

void stream_group(const StreamGroup& g, void* stream) {
  const View& x = rows_in(g);
  if (x.size(0) == 0) return;
  MatmulProblem shape{.rows = x.size(0), .in_features = x.size(1), .dtype = x.dtype(), .out_dtype = x.dtype()};
  for (int i = 0; i < g.products.count; ++i) shape.out_features += g.products.at[static_cast<size_t>(i)].weight.size(0);
  // Sizes alone do not say which group it is.
  const char name[] = {'g', static_cast<char>('0' + g.products.count),
                       static_cast<char>('0' + static_cast<int>(kind_of(g)))};
  const int cut = stream_cut(
      shape, StreamEpilogue::kPlain, cuts_of(g).size(), stream,
      [&](int tried) { stream_group_with_cut(g, tried, stream); }, std::string_view(name, std::size(name)));
  stream_group_with_cut(g, cut, stream);
}

}  // namespace fk::cuda
