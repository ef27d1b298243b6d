// A block has some rows of one of the matrices, 16 at a time, and computes what comes before the products once. Warps
// split the length, as in stream_weights.cu. Loads go two rounds ahead, across tiles, and begin before the block waits
// for the previous kernel.
#include "backend/cuda/matmul/stream_group.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/multiprocessors.h"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/l1/activations.cuh"
#include "backend/cuda/matmul/group_prologue.cuh"
#include "backend/cuda/matmul/stream_call.cuh"
#include "backend/cuda/matmul/stream_tuner.h"
#include "core/check.h"

namespace fk::cuda {
namespace {

constexpr int kGroupChunk = 32;  // elements of a row that four threads load at once: 64 bytes
// Of a block, for the rows; its own arrays take some more.
size_t most_group_shared() {
  constexpr size_t kOwnArrays = 20 << 10, kMost = 100 << 10;
  const size_t all = shared_memory_of_block();
  return all < kOwnArrays ? 0 : std::min(all - kOwnArrays, kMost);
}

constexpr int kGroupTile = 16;  // rows of a matrix that a block multiplies at once

template <int kWarps_, int kUnroll_, int kBlocks_, int kTokens_>
struct GroupCut {
  static constexpr int kWarps = kWarps_;    // of a block
  static constexpr int kUnroll = kUnroll_;  // chunks a warp takes at once
  static constexpr int kBlocks = kBlocks_;  // on a multiprocessor at once, which limits registers
  static constexpr int kTokens = kTokens_;  // at most
  static constexpr int kRound = kWarps * kUnroll * kGroupChunk;
};

// Matrices pass through the L2 once: they are the first to be replaced, so that all else, which is small and read again
// in the next step, stays there.
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
  __shared__ float parts[2][C::kWarps][kGroupTile][C::kTokens + 1];  // of tiles in turn
  __shared__ typename GroupRows<T, kThreads, C::kTokens>::Scratch scratch;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
  int which = 0;
  while (which + 1 < c.count && static_cast<int>(blockIdx.x) >= c.products[which + 1].first_block) ++which;
  const GroupProductCall<T>& p = c.products[which];
  const bool gated = p.gated();
  // In columns of the result: those of a tile, and of this block. A gated tile has 8 gate rows and the 8 up rows for
  // them.
  const int of_tile = gated ? kGroupTile / 2 : kGroupTile, of_block = gated ? c.block_rows / 2 : c.block_rows;
  const int first = (static_cast<int>(blockIdx.x) - p.first_block) * of_block;
  const int count = min(of_block, p.features - first);

  const uint64_t policy = passing_through();
  const int in_round = warp * C::kUnroll * kGroupChunk + 8 * quad;  // where this thread's elements begin
  const T* low_row = p.weight + static_cast<int64_t>(first + group) * c.length + in_round;
  const int64_t to_high = static_cast<int64_t>(gated ? p.features : 8) * c.length;
  const int high_column = gated ? group : group + 8;
  uint4 w[2][2][C::kUnroll];
  int loaded = 0, load_tile = 0;  // elements of a row, and columns, that have been loaded
  auto load_weights = [&](int buffer) {
    const bool low = load_tile + group < count, high = load_tile + high_column < count;
#pragma unroll
    for (int u = 0; u < C::kUnroll; ++u) {
      const bool inside = loaded + u * kGroupChunk + in_round < c.length;
      const T* at = low_row + loaded + u * kGroupChunk;
      w[buffer][0][u] = inside && low ? load_once(at, policy) : uint4{0, 0, 0, 0};
      w[buffer][1][u] = inside && high ? load_once(at + to_high, policy) : uint4{0, 0, 0, 0};
    }
    loaded += C::kRound;
    if (loaded >= c.length) {
      loaded = 0;
      load_tile += of_tile;
      low_row += static_cast<int64_t>(of_tile) * c.length;
    }
  };
  load_weights(0);
  if (c.early) load_weights(1);

  GroupRows<T, kThreads, C::kTokens> shared(reinterpret_cast<T*>(group_shared), scratch, c.tokens, c.length);
  if constexpr (kPrologue != PrologueKind::kNone)
    shared.copy_weights(kPrologue, c.prologue, p.mixture, blockIdx.x == 0);
  let_next_start();
  wait_for_previous();
  auto load_second = [&] {
    if (!c.early) load_weights(1);
  };
  const bool in_shared = kPrologue != PrologueKind::kNone || c.staged;
  if constexpr (kPrologue == PrologueKind::kRmsNorm) {
    shared.rms_norm(c.prologue, blockIdx.x == 0, load_second);
  } else if constexpr (kPrologue == PrologueKind::kHeadNorm) {
    shared.head_norm(c.prologue, load_second);
  } else if constexpr (kPrologue == PrologueKind::kShift) {
    shared.shift(c.prologue, blockIdx.x == 0, load_second);
  } else if constexpr (kPrologue == PrologueKind::kPostNorm) {
    shared.post_norm(c.prologue, blockIdx.x == 0, load_second);
  } else if (c.staged) {
    shared.take(p.x, p.x_stride, load_second);
  } else {
    load_second();
  }

  float sum[4] = {};
  const int token = min(group, c.tokens - 1);
  const T* x = (in_shared ? shared.row(token) : p.x + token * p.x_stride) + in_round;
  int done = 0, tile = 0, half = 0;  // elements of the rows, columns before the tile, half of `parts`
  // Multiplies one round, and at the end of the rows writes a tile. False when that was the last.
  auto step = [&](int buffer) {
#pragma unroll
    for (int u = 0; u < C::kUnroll; ++u) {
      uint4 v{0, 0, 0, 0};
      if (group < c.tokens && done + u * kGroupChunk + in_round < c.length)
        v = *reinterpret_cast<const uint4*>(x + done + u * kGroupChunk);
      const uint4 &low = w[buffer][0][u], &high = w[buffer][1][u];
      multiply_tile<T>(sum, low.x, high.x, low.y, high.y, v.x, v.y);
      multiply_tile<T>(sum, low.z, high.z, low.w, high.w, v.z, v.w);
    }
    load_weights(buffer);
    done += C::kRound;
    if (done < c.length) return true;
    done = 0;
    // Every warp holds a part of each sum.
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (2 * quad + i % 2 < C::kTokens) parts[half][warp][group + 8 * (i / 2)][2 * quad + i % 2] = sum[i];
      sum[i] = 0;
    }
    __syncthreads();
    auto total = [&](int row, int of_token, int bias) {
      float all = 0;
#pragma unroll
      for (int i = 0; i < C::kWarps; ++i) all += parts[half][i][row][of_token];
      return p.bias != nullptr ? all + to_float(p.bias[bias]) : all;
    };
    for (int i = threadIdx.x; i < of_tile * c.tokens; i += kThreads) {
      const int column = i % of_tile, of_token = i / of_tile, feature = first + tile + column;
      if (tile + column >= count) continue;
      float value = total(column, of_token, feature);
      if (gated) {
        const float up = total(column + of_tile, of_token, feature + p.features);
        value = to_float(from_float<T>(value));
        value = (p.activation == GroupActivation::kSiluAndMul ? silu(value) : gelu_tanh(value)) *
                to_float(from_float<T>(up));
      } else {
        value = activated<T>(p.activation, value);
      }
      constexpr bool kMayBeWide = kPrologue != PrologueKind::kHeadNorm && kPrologue != PrologueKind::kShift;
      if (kMayBeWide && p.wide)
        reinterpret_cast<float*>(p.out)[of_token * p.out_stride + feature] = value;
      else
        p.out[of_token * p.out_stride + feature] = from_float<T>(value);
    }
    half ^= 1;
    tile += of_tile;
    return tile < count;
  };
  // Two named buffers, not an array: registers cannot be indexed.
  while (step(0) && step(1)) {
  }
  if (c.stored != nullptr) store_last_tokens<T, kThreads>(c);
  for (int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x); i < c.cleared_words;
       i += static_cast<int>(gridDim.x) * kThreads)
    c.cleared[i] = 0;
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

int64_t heads_of(const StreamGroup& g) {
  const auto* heads = std::get_if<HeadNormRows>(&g.prologue);
  return heads != nullptr ? heads->squares.size(1) : 0;
}

DType dtype_of_group(const StreamGroup& g) { return g.products.at[0].weight.dtype(); }

// The rows that go into the group: of x, or of the first product.
const View& rows_in(const StreamGroup& g) {
  if (const auto* norm = std::get_if<RmsNormRows>(&g.prologue)) return norm->x;
  if (const auto* heads = std::get_if<HeadNormRows>(&g.prologue)) return heads->x;
  if (const auto* shifted = std::get_if<ShiftedRows>(&g.prologue)) return shifted->x;
  if (const auto* post = std::get_if<PostNormRows>(&g.prologue)) return post->x;
  return *g.products.at[0].x;
}

template <class T>
PrologueCall<T> prologue_call(const StreamGroup& g) {
  PrologueCall<T> c{};
  const View& x = rows_in(g);
  c.x = static_cast<const T*>(x.data());  // not of HeadNormRows
  c.x_stride = x.stride(0);
  auto sums = [&](const auto& p) {
    c.residual = start_of<T>(p.residual);
    c.residual_stride = row_distance(p.residual);
    c.sum_out = const_cast<T*>(start_of<T>(p.sum_out));
    c.sum_stride = row_distance(p.sum_out);
    c.weight = static_cast<const T*>(p.weight.data());
    c.eps = static_cast<float>(p.eps);
  };
  if (const auto* norm = std::get_if<RmsNormRows>(&g.prologue)) {
    sums(*norm);
    c.weight_offset = static_cast<float>(norm->weight_offset);
    c.normed_out = const_cast<T*>(start_of<T>(norm->normed_out));
    c.normed_stride = row_distance(norm->normed_out);
  }
  if (const auto* heads = std::get_if<HeadNormRows>(&g.prologue)) {
    c.of_heads = static_cast<const float*>(heads->x.data());
    c.of_heads_stride = heads->x.stride(0);
    c.squares = static_cast<const float*>(heads->squares.data());
    c.squares_stride = heads->squares.stride(0);
    c.heads = static_cast<int>(heads->squares.size(1));
    c.parts = static_cast<int>(heads->squares.size(2));
    c.eps = static_cast<float>(heads->eps);
  }
  if (const auto* post = std::get_if<PostNormRows>(&g.prologue)) {
    sums(*post);
    c.post_weight = static_cast<const T*>(post->post_weight.data());
    c.second_weight = start_of<T>(post->second_weight);
    c.second_out = const_cast<T*>(start_of<T>(post->second_out));
    c.second_stride = row_distance(post->second_out);
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

// The rows of a block: as few as give every block of the group a place on the device at once.
int block_rows(const StreamGroup& g, int64_t places) {
  auto blocks = [&](int64_t rows) {
    int64_t all = 0;
    for (int i = 0; i < g.products.count; ++i)
      all += blocks_for(g.products.at[static_cast<size_t>(i)].weight.size(0), rows);
    return all;
  };
  int64_t rows = kGroupTile / 2;
  while (blocks(rows) > places && rows < INT32_MAX / 2) rows += 2;  // even: a gated row and its partner
  return static_cast<int>(rows);
}

// kPlaces: blocks on a multiprocessor, each with as many rows as that takes; 0: a block for each tile. Fewer places
// than C::kBlocks leave room for blocks of the next kernel, whose matrix is then on its way while this one still
// multiplies. kEarly: two rounds of the matrix are on their way before the rows are loaded, which have to wait behind
// them; else one.
template <class T, PrologueKind kPrologue, class C, int kPlaces, bool kEarly>
void launch_group_cut(const StreamGroup& g, void* stream) {
  GroupCall<T> c{};
  const View& first = rows_in(g);
  c.count = g.products.count;
  c.tokens = static_cast<int>(first.size(0));
  c.length = static_cast<int>(first.size(1));
  c.prologue = prologue_call<T>(g);
  c.block_rows = kPlaces > 0 ? block_rows(g, kPlaces * multiprocessors()) : kGroupTile;
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
    call.wide = p.out.dtype() == DType::kF32;
    blocks += static_cast<int>(blocks_for(p.weight.size(0), c.block_rows));
  }
  c.stored = start_of<T>(g.stored);
  c.stored_stride = row_distance(g.stored);
  c.stored_width = g.stored ? static_cast<int>(g.stored->size(1)) : 0;
  c.store = last_tokens<T>(g.store);
  if (g.cleared) {
    c.cleared = static_cast<int64_t*>(g.cleared->data());
    c.cleared_words = static_cast<int>(g.cleared->size(0));
  }
  size_t shared =
      static_cast<size_t>(group_shared_elements(kPrologue, c.tokens, c.length, c.prologue.heads)) * sizeof(T);
  c.early = kEarly;
  if constexpr (kPrologue == PrologueKind::kNone) {
    c.staged = !kEarly && shared <= most_group_shared();
    if (!c.staged) shared = 0;
  }
  auto* kernel = stream_group_rows<T, kPrologue, C>;
  static const bool allowed = (allow_shared_memory("stream_group", kernel, most_group_shared()), true);
  (void)allowed;
  launch("stream_group", kernel, static_cast<unsigned>(blocks), 32 * C::kWarps, shared, stream, c);
}

using LaunchGroup = void (*)(const StreamGroup&, void*);

template <size_t... N>
constexpr auto joined(const std::array<LaunchGroup, N>&... lists) {
  std::array<LaunchGroup, (N + ...)> all{};
  size_t at = 0;
  ((std::copy(lists.begin(), lists.end(), all.begin() + at), at += N), ...);
  return all;
}

// Blocks for single tiles leave room for the next kernel earlier, but repeat the prologue more often.
template <class T, PrologueKind kPrologue, int kTokens, bool kEarly>
constexpr std::array<LaunchGroup, 3> kSingleTiles = {
    launch_group_cut<T, kPrologue, GroupCut<8, 2, 4, kTokens>, 0, kEarly>,
    launch_group_cut<T, kPrologue, GroupCut<16, 2, 2, kTokens>, 0, kEarly>,
    launch_group_cut<T, kPrologue, GroupCut<8, 4, 2, kTokens>, 0, kEarly>,
};
template <class T, PrologueKind kPrologue, int kTokens, bool kEarly>
constexpr std::array<LaunchGroup, 5> kSeveralTiles = {
    launch_group_cut<T, kPrologue, GroupCut<8, 2, 4, kTokens>, 4, kEarly>,
    launch_group_cut<T, kPrologue, GroupCut<10, 2, 3, kTokens>, 3, kEarly>,
    launch_group_cut<T, kPrologue, GroupCut<16, 2, 2, kTokens>, 2, kEarly>,
    launch_group_cut<T, kPrologue, GroupCut<8, 4, 2, kTokens>, 2, kEarly>,
    launch_group_cut<T, kPrologue, GroupCut<16, 4, 1, kTokens>, 1, kEarly>,
};
// Half of a multiprocessor: the other half is for the next kernel.
template <class T, PrologueKind kPrologue, int kTokens, bool kEarly>
constexpr std::array<LaunchGroup, 3> kHalfPlaces = {
    launch_group_cut<T, kPrologue, GroupCut<8, 2, 4, kTokens>, 2, kEarly>,
    launch_group_cut<T, kPrologue, GroupCut<16, 2, 2, kTokens>, 1, kEarly>,
    launch_group_cut<T, kPrologue, GroupCut<8, 4, 2, kTokens>, 1, kEarly>,
};

// Of those that take about the same time the tuner takes the first.
template <class T, PrologueKind kPrologue, int kTokens>
std::span<const LaunchGroup> group_cuts() {
  if constexpr (kTokens == 1 || kPrologue == PrologueKind::kNone) {
    static constexpr auto kCuts =
        joined(kSingleTiles<T, kPrologue, kTokens, true>, kSingleTiles<T, kPrologue, kTokens, false>,
               kSeveralTiles<T, kPrologue, kTokens, true>, kSeveralTiles<T, kPrologue, kTokens, false>,
               kHalfPlaces<T, kPrologue, kTokens, true>, kHalfPlaces<T, kPrologue, kTokens, false>);
    return kCuts;
  } else {
    static constexpr LaunchGroup kCuts[] = {
        launch_group_cut<T, kPrologue, GroupCut<16, 2, 1, kTokens>, 1, true>,
        launch_group_cut<T, kPrologue, GroupCut<8, 2, 2, kTokens>, 2, true>,
        launch_group_cut<T, kPrologue, GroupCut<16, 2, 1, kTokens>, 1, false>,
        launch_group_cut<T, kPrologue, GroupCut<8, 2, 2, kTokens>, 2, false>,
        launch_group_cut<T, kPrologue, GroupCut<8, 2, 2, kTokens>, 0, true>,
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
      case PrologueKind::kPostNorm:
        return cuts_for<T, PrologueKind::kPostNorm>(g);
      default:
        return cuts_for<T, PrologueKind::kNone>(g);
    }
  };
  return dtype_of_group(g) == DType::kBF16 ? typed.template operator()<__nv_bfloat16>()
                                           : typed.template operator()<__half>();
}

}  // namespace

std::string_view stream_group_refusal(const StreamGroup& g) {
  const View& x = rows_in(g);
  const DType dtype = dtype_of_group(g);
  if (dtype != DType::kBF16 && dtype != DType::kF16) return "it multiplies bf16 and f16";
  if (x.size(0) > kMostGroupTokens) return "it takes at most 8 rows";
  if (x.size(1) > INT32_MAX / 2) return "the matrix is too large for 32-bit indices";
  auto unfit = [](const OptView& v) { return v && v->data() != nullptr && !rows_fit_packs(*v); };
  bool odd = unfit(x) || unfit(g.stored);
  for (int i = 0; i < g.products.count; ++i) {
    const GroupedProduct& p = g.products.at[static_cast<size_t>(i)];
    odd = odd || unfit(p.weight) || unfit(p.x) || unfit(p.mixture);
  }
  auto sums = [&](const auto& p) { odd = odd || unfit(p.residual) || unfit(p.sum_out) || unfit(p.weight); };
  if (const auto* norm = std::get_if<RmsNormRows>(&g.prologue)) {
    sums(*norm);
    odd = odd || unfit(norm->normed_out);
  }
  // Eight elements are made of two packs of x.
  if (heads_of(g) > 0) odd = odd || x.size(1) / heads_of(g) % 8 != 0;
  if (const auto* s = std::get_if<ShiftedRows>(&g.prologue)) {
    sums(*s);
    odd = odd || unfit(s->bias) || unfit(s->pre_weight) || unfit(s->pre_bias);
  }
  if (const auto* post = std::get_if<PostNormRows>(&g.prologue)) {
    sums(*post);
    odd = odd || unfit(post->post_weight) || unfit(post->second_weight) || unfit(post->second_out);
  }
  if (odd) return "rows must start on 16 bytes";
  const int64_t elements = group_shared_elements(kind_of(g), x.size(0), x.size(1), heads_of(g));
  if (kind_of(g) != PrologueKind::kNone && static_cast<size_t>(elements) * 2 > most_group_shared())
    return "the rows do not fit into shared memory";
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
  const DType dtype = dtype_of_group(g);
  MatmulProblem shape{.rows = x.size(0), .in_features = x.size(1), .dtype = dtype, .out_dtype = dtype};
  for (int i = 0; i < g.products.count; ++i) shape.out_features += g.products.at[static_cast<size_t>(i)].weight.size(0);
  // Sizes alone do not say which group it is. Change the letter when the splits change.
  const char name[] = {'j', static_cast<char>('0' + g.products.count),
                       static_cast<char>('0' + static_cast<int>(kind_of(g)))};
  const int cut = stream_cut(
      shape, StreamEpilogue::kPlain, cuts_of(g).size(), stream,
      [&](int tried) { stream_group_with_cut(g, tried, stream); }, std::string_view(name, std::size(name)));
  stream_group_with_cut(g, cut, stream);
}

}  // namespace fk::cuda
