#include "compiler/codegen/cuda_attention_prelude.h"

namespace fk {

const std::string_view kCudaAttentionPrelude = R"(
namespace {

// What the thread `lane` of this warp has.
template <class T>
__device__ __forceinline__ T of_lane(T x, int lane) {
  return __shfl_sync(0xffffffffu, x, lane);
}

}  // namespace
)";

const std::string_view kCudaAttention = R"(
namespace {

// Two neighbours of an operand, and eight elements that a thread loads at once.
struct TwoFloats {
  float x, y;
};
template <class T>
struct PairOf {
  using Type = uint32_t;
};
template <>
struct PairOf<float> {
  using Type = TwoFloats;
};
template <class T>
struct alignas(16) Eight {
  typename PairOf<T>::Type at[4];
};

template <class T>
__device__ __forceinline__ uint32_t bits_of(T x) {
  uint16_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
template <class T>
__device__ __forceinline__ void pair_up(uint32_t& pair, T low, T high) {
  pair = bits_of(low) | bits_of(high) << 16;
}
template <class T>
__device__ __forceinline__ void pair_up(TwoFloats& pair, T low, T high) {
  pair = {low, high};
}
// Of two rows the same element, `which` of a pair.
__device__ __forceinline__ uint32_t across(uint32_t a, uint32_t b, int which) {
  return which == 0 ? (a & 0xffffu) | b << 16 : a >> 16 | (b & 0xffff0000u);
}
__device__ __forceinline__ TwoFloats across(const TwoFloats& a, const TwoFloats& b, int which) {
  return which == 0 ? TwoFloats{a.x, b.x} : TwoFloats{a.y, b.y};
}

// Eight elements of a row of `count`, zeros behind them. kWhole: all or none, at addresses that are multiples of 16
// bytes.
template <bool kWhole, class T>
__device__ __forceinline__ Eight<T> load_eight(const T* row, int at, int count) {
  Eight<T> to = {};
  if (at >= count) return to;
  if constexpr (kWhole) {
    copy_words<sizeof(to)>(&to, row + at);
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      pair_up<T>(to.at[k], at + 2 * k < count ? row[at + 2 * k] : T(0.0f),
                 at + 2 * k + 1 < count ? row[at + 2 * k + 1] : T(0.0f));
  }
  return to;
}

// sum [16 x 8] += a [16 x 16] b [16 x 8] in the layout of multiply_tile; in float by shuffles, with all bits.
template <class T>
__device__ __forceinline__ void multiply_pairs(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                               uint32_t b0, uint32_t b1) {
  multiply_tile<T>(sum, a0, a1, a2, a3, b0, b1);
}
template <class T>
__device__ __forceinline__ void multiply_pairs(float (&sum)[4], TwoFloats a0, TwoFloats a1, TwoFloats a2, TwoFloats a3,
                                               TwoFloats b0, TwoFloats b1) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // A loop: written out in every tile of a large head, compilers take half a minute for it.
#pragma unroll 1
  for (int quad = 0; quad < 4; ++quad) {
    const int row = lane / 4 * 4 + quad;
    const float a[4][2] = {{of_lane(a0.x, row), of_lane(a0.y, row)},
                           {of_lane(a1.x, row), of_lane(a1.y, row)},
                           {of_lane(a2.x, row), of_lane(a2.y, row)},
                           {of_lane(a3.x, row), of_lane(a3.y, row)}};
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int column = (lane % 4 * 2 + c) * 4 + quad;
      const float b[2][2] = {{of_lane(b0.x, column), of_lane(b0.y, column)},
                             {of_lane(b1.x, column), of_lane(b1.y, column)}};
#pragma unroll
      for (int r = 0; r < 2; ++r)
        sum[2 * r + c] += a[r][0] * b[0][0] + a[r][1] * b[0][1] + a[2 + r][0] * b[1][0] + a[2 + r][1] * b[1][1];
    }
  }
}

// An element of a pair.
template <class T>
__device__ __forceinline__ float float_of(uint32_t pair, int which) {
  const uint16_t bits = static_cast<uint16_t>(which == 0 ? pair : pair >> 16);
  T x;
  memcpy(&x, &bits, sizeof bits);
  return float(x);
}
template <class T>
__device__ __forceinline__ float float_of(const TwoFloats& pair, int which) {
  return which == 0 ? pair.x : pair.y;
}

struct Larger {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct Smaller {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};

// The keys that a row sees, [first, last), and where they are.
struct SeenKeys {
  int first, last, source;
};

// Sixteen rows are multiplied at once: heads of a group, of one token or of several.
template <int kGroup_, int kTokens_>
struct RowTile {
  static constexpr int kGroup = kGroup_;
  static constexpr int kTokens = kTokens_;                       // that share a tile
  static constexpr int kHeads = kGroup < 16 ? kGroup : 16;       // of a tile
  static constexpr int kHeadTiles = (kGroup + kHeads - 1) / kHeads;
};

constexpr int kAttentionWarps = 4;  // of a block
constexpr __device__ int padded(int elements, int to) { return (elements + to - 1) / to * to; }

// exp(x - top); 0 where nothing was seen, x and top are -INFINITY then.
__device__ __forceinline__ float weight_of(float x, float top) { return expf(x - (top == -INFINITY ? 0.0f : top)); }

// Attention of the rows of one tile over its keys in tiles of sixteen: `part` of `parts` takes every parts-th of them.
// A thread has the scores of rows lane / 4 and lane / 4 + 8, and of these rows the columns n * 8 + e of each 64, with
// n = 2 * (lane % 4) and one more: so keys and values are loaded as they lie in memory, eight elements at once, and go
// to the tensor cores without a change of order.
// kRounded: weights are rounded to T. Else the rounding error of each weight is multiplied with the values too, in a
// second product.
template <class T, int kQuery, int kValue, int kColumns, bool kAligned, bool kRounded>
struct RowAttention {
  static constexpr int kChunks = padded(kQuery, 32) / 32, kBlocks = kColumns / 64;
  static constexpr bool kWholeQuery = kAligned && kQuery % 8 == 0, kWholeValue = kAligned && kValue % 8 == 0;
  static constexpr bool kKeepQueries = kQuery * sizeof(T) <= 512;  // in registers
  static constexpr bool kEarlyValues = kColumns * sizeof(T) <= 256;  // loaded together with keys

  float mixed[kBlocks][8][4];
  float top[2], total[2];

  template <class QRow, class KRow, class VRow, class Score>
  __device__ __forceinline__ void run(SeenKeys mine, int part, int parts, int first_column, const QRow& q_row,
                                      const KRow& k_row, const VRow& v_row, const Score& score) {
    const int lane = static_cast<int>(threadIdx.x) % 32, group = lane / 4, quad = lane % 4;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b)
#pragma unroll
      for (int e = 0; e < 8; ++e)
#pragma unroll
        for (int i = 0; i < 4; ++i) mixed[b][e][i] = 0;
    top[0] = top[1] = -INFINITY;
    total[0] = total[1] = 0;
    const T *upper = q_row(group), *lower = q_row(group + 8);
    Eight<T> kept[kKeepQueries ? kChunks : 1][2];
    if constexpr (kKeepQueries)
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const int d = c * 32 + quad * 8;
        kept[c][0] = load_eight<kWholeQuery>(upper, d, kQuery);
        kept[c][1] = load_eight<kWholeQuery>(lower, d, kQuery);
      }
    // Rows whose keys are in one place together; most tiles have one.
    constexpr int kNone = 0x7fffffff;
    int left = mine.first < mine.last ? mine.source : kNone;
    for (;;) {
      const int source = over_team<32>(left, Smaller());
      if (source == kNone) break;
      const bool now = left == source;
      const int begin = over_team<32>(now ? mine.first : kNone, Smaller());
      const int end = over_team<32>(now ? mine.last : 0, Larger());
      const int first[2] = {of_lane(now ? mine.first : 0, group), of_lane(now ? mine.first : 0, group + 8)};
      const int last[2] = {of_lane(now ? mine.last : 0, group), of_lane(now ? mine.last : 0, group + 8)};
      if (now) left = kNone;
      // Every row of the tile sees keys [from, to), if all of them are here.
      const int from = over_team<32>(now ? mine.first : 0, Larger());
      const int to = over_team<32>(now ? mine.last : kNone, Smaller());
      const bool others = over_team<32>(mine.first < mine.last && !now ? 1 : 0, Larger()) != 0;
      for (int base = begin / 16 * 16 + 16 * part; base < end; base += 16 * parts) {
        float s[2][4] = {};
        // Instead of keys that no row sees, others are loaded; their weights are 0.
        auto seen = [&](int key) { return Smaller()(Larger()(key, begin), end - 1); };
        const T* keys[2];
#pragma unroll
        for (int t = 0; t < 2; ++t) keys[t] = k_row(source, seen(base + 8 * t + group));
        const T* values[4];
#pragma unroll
        for (int t = 0; t < 4; ++t) values[t] = v_row(source, seen(base + 2 * quad + t % 2 + t / 2 * 8));
        Eight<T> v[kEarlyValues ? kBlocks : 1][4];
        auto load_values = [&](int b) {
#pragma unroll
          for (int t = 0; t < 4; ++t)
            v[kEarlyValues ? b : 0][t] = load_eight<kWholeValue>(values[t], first_column + b * 64 + group * 8, kValue);
        };
        if constexpr (kEarlyValues)
#pragma unroll
          for (int b = 0; b < kBlocks; ++b) load_values(b);
#pragma unroll
        for (int c = 0; c < kChunks; ++c) {
          const int d = c * 32 + quad * 8;
          Eight<T> a0, a1;
          if constexpr (kKeepQueries) {
            a0 = kept[c][0], a1 = kept[c][1];
          } else {
            a0 = load_eight<kWholeQuery>(upper, d, kQuery);
            a1 = load_eight<kWholeQuery>(lower, d, kQuery);
          }
#pragma unroll
          for (int t = 0; t < 2; ++t) {
            const Eight<T> b = load_eight<kWholeQuery>(keys[t], d, kQuery);
            multiply_pairs<T>(s[t], a0.at[0], a1.at[0], a0.at[1], a1.at[1], b.at[0], b.at[1]);
            multiply_pairs<T>(s[t], a0.at[2], a1.at[2], a0.at[3], a1.at[3], b.at[2], b.at[3]);
          }
        }
        float next[2] = {top[0], top[1]};
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int key = base + 8 * t + 2 * quad + i % 2;
            s[t][i] = key >= first[i / 2] && key < last[i / 2] ? score(s[t][i]) : -INFINITY;
            next[i / 2] = Larger()(s[t][i], next[i / 2]);
          }
        float before[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          next[r] = over_team<4>(next[r], Larger());
          before[r] = weight_of(top[r], next[r]);
          top[r] = next[r];
          total[r] *= before[r];
        }
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            s[t][i] = weight_of(s[t][i], top[i / 2]);
            total[i / 2] += s[t][i];
          }
        typename PairOf<T>::Type weights[4], left_over[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const float a = s[k / 2][k % 2 * 2], b = s[k / 2][k % 2 * 2 + 1];
          pair_up<T>(weights[k], a, b);
          if constexpr (!kRounded) pair_up<T>(left_over[k], a - float(T(a)), b - float(T(b)));
        }
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
          if constexpr (!kEarlyValues) load_values(b);
          const Eight<T>(&four)[4] = v[kEarlyValues ? b : 0];
          // A weight of 0 does not remove a value that is infinite or NaN: then only rows that see a key add its value.
          if (others || base < from || base + 16 > to) {
            float none = 0;  // a NaN if a value is not finite
#pragma unroll
            for (int t = 0; t < 4; ++t)
#pragma unroll
              for (int e = 0; e < 8; ++e) none += float_of<T>(four[t].at[e / 2], e % 2) * 0.0f;
            if (over_team<32>(none == 0.0f ? 0 : 1, Larger()) != 0) {
#pragma unroll
              for (int e = 0; e < 8; ++e)
#pragma unroll
                for (int i = 0; i < 4; ++i) mixed[b][e][i] *= before[i / 2];
#pragma unroll 1
              for (int j = 0; j < 16; ++j) {
                const T* const value = v_row(source, seen(base + j));
                const int from_lane = group * 4 + j % 8 / 2;
                float weight[2];
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                  const float low = j < 8 ? s[0][2 * r] : s[1][2 * r], high = j < 8 ? s[0][2 * r + 1] : s[1][2 * r + 1];
                  weight[r] = of_lane(j % 2 == 0 ? low : high, from_lane);
                }
#pragma unroll
                for (int e = 0; e < 8; ++e)
#pragma unroll
                  for (int i = 0; i < 4; ++i) {
                    const int d = first_column + b * 64 + (2 * quad + i % 2) * 8 + e;
                    if (d < kValue && base + j >= first[i / 2] && base + j < last[i / 2])
                      mixed[b][e][i] += weight[i / 2] * float(value[d]);
                  }
              }
              continue;
            }
          }
#pragma unroll
          for (int e = 0; e < 8; ++e) {
#pragma unroll
            for (int i = 0; i < 4; ++i) mixed[b][e][i] *= before[i / 2];
            const auto low = across(four[0].at[e / 2], four[1].at[e / 2], e % 2);
            const auto high = across(four[2].at[e / 2], four[3].at[e / 2], e % 2);
            multiply_pairs<T>(mixed[b][e], weights[0], weights[1], weights[2], weights[3], low, high);
            if constexpr (!kRounded)
              multiply_pairs<T>(mixed[b][e], left_over[0], left_over[1], left_over[2], left_over[3], low, high);
          }
        }
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) total[r] = over_team<4>(total[r], [](float a, float b) { return a + b; });
  }
};

// What a row's sum is multiplied with at the end, with a sink's score taken into account.
__device__ __forceinline__ float last_factor(float top, float total, float sink) {
  const float with_sink = Larger()(top, sink);
  const float all = total * weight_of(top, with_sink) + weight_of(sink, with_sink);
  return all == 0 ? 0.0f : weight_of(top, with_sink) / all;
}

// A block's work. kShare: warps that share a tile's keys. `splits`: blocks that do; then sums go to `workspace`, for
// each split [rows, kValue] and then [rows, 2] with the largest score and the total.
template <class T, class Tile, int kHeads, int kQuery, int kValue, int kColumns, bool kRounded, int kShare,
          bool kAligned, class SeenBy, class QRow, class KRow, class VRow, class Score, class Sink>
__device__ __forceinline__ void attend(int64_t rows, int splits, float* workspace, T* out, const SeenBy& seen_by,
                                       const QRow& q_row, const KRow& k_row, const VRow& v_row, const Score& score,
                                       const Sink& sink_of) {
  constexpr int kParts = (kValue + kColumns - 1) / kColumns;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t token_tiles = (rows + Tile::kTokens - 1) / Tile::kTokens;
  const int64_t tiles = token_tiles * kHeads * Tile::kHeadTiles * kParts;
  const int64_t tile = static_cast<int64_t>(blockIdx.x) / splits * (kAttentionWarps / kShare) + warp / kShare;
  const int split = static_cast<int>(blockIdx.x) % splits;
  if (kShare == 1 && tile >= tiles) return;
  // Later tokens see more keys: they begin first.
  const int64_t first_token = (token_tiles - 1 - tile % token_tiles) * Tile::kTokens;
  int64_t rest = tile / token_tiles;
  const int first_column = static_cast<int>(rest % kParts) * kColumns;
  rest /= kParts;
  const int first_head = static_cast<int>(rest % Tile::kHeadTiles) * Tile::kHeads;
  const int head = static_cast<int>(rest / Tile::kHeadTiles);
  // Row r of the tile: which token, and which head of the group.
  auto token_of = [&](int r) { return first_token + r / Tile::kHeads; };
  auto head_of = [&](int r) { return first_head + r % Tile::kHeads; };
  auto exists = [&](int r) {
    return r < Tile::kTokens * Tile::kHeads && token_of(r) < rows && head_of(r) < Tile::kGroup;
  };
  SeenKeys mine = {0, 0, 0};
  if (lane < 16 && exists(lane)) mine = seen_by(token_of(lane));
  RowAttention<T, kQuery, kValue, kColumns, kAligned, kRounded> row;
  row.run(
      mine, split * kShare + warp % kShare, splits * kShare, first_column,
      [&](int r) {
        const int of = exists(r) ? r : 0;  // what becomes of rows that do not exist is not stored
        return q_row(token_of(of), head, head_of(of));
      },
      [&](int source, int key) { return k_row(source, head, key); },
      [&](int source, int key) { return v_row(source, head, key); }, score);

  const int group = lane / 4, quad = lane % 4;
  auto number_of = [&](int r) { return token_of(r) * (kHeads * Tile::kGroup) + head * Tile::kGroup + head_of(r); };
  if constexpr (kShare == 1) {
    // splits is 1 here.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = group + 8 * half;
      if (!exists(r)) continue;
      const float factor = last_factor(row.top[half], row.total[half], sink_of(head, head_of(r)));
      T* const to = out + number_of(r) * kValue;
#pragma unroll
      for (int b = 0; b < kColumns / 64; ++b)
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          const int d = first_column + b * 64 + (2 * quad + n) * 8;
          Pack<T, 8> pack;
#pragma unroll
          for (int e = 0; e < 8; ++e) pack.at[e] = row.mixed[b][e][2 * half + n] * factor;
          if (d + 8 <= kValue) {
            store<kAligned && kValue % 8 == 0>(to + d, pack);
          } else {
#pragma unroll
            for (int e = 0; e < 8; ++e)
              if (d + e < kValue) to[d + e] = pack.at[e];
          }
        }
    }
  } else {
    // Adds the sums of the warps one after the other. Each is first scaled by exp(its largest score - that of all).
    __shared__ float sums[16][kColumns + 4];
    __shared__ float tops[kShare][16], totals[kShare][16];
    if (quad == 0)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        tops[warp][group + 8 * half] = row.top[half];
        totals[warp][group + 8 * half] = row.total[half];
      }
    __syncthreads();
    float all_top[2], factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      all_top[half] = -INFINITY;
#pragma unroll
      for (int w = 0; w < kShare; ++w) all_top[half] = Larger()(all_top[half], tops[w][group + 8 * half]);
      factor[half] = weight_of(row.top[half], all_top[half]);
    }
    for (int w = 0; w < kShare; ++w) {
      if (warp == w)
#pragma unroll
        for (int b = 0; b < kColumns / 64; ++b)
#pragma unroll
          for (int e = 0; e < 8; ++e)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              float& sum = sums[group + 8 * (i / 2)][b * 64 + (2 * quad + i % 2) * 8 + e];
              const float x = row.mixed[b][e][i] * factor[i / 2];
              sum = w == 0 ? x : sum + x;
            }
      __syncthreads();
    }
    for (int r = warp; r < 16; r += kShare) {
      if (!exists(r)) continue;
      float top = -INFINITY, total = 0;
#pragma unroll
      for (int w = 0; w < kShare; ++w) top = Larger()(top, tops[w][r]);
#pragma unroll
      for (int w = 0; w < kShare; ++w) total += totals[w][r] * weight_of(tops[w][r], top);
      const int64_t number = number_of(r), all_rows = rows * (kHeads * Tile::kGroup);
      const float last = splits > 1 ? 1.0f : last_factor(top, total, sink_of(head, head_of(r)));
      for (int c = lane; c < kColumns; c += 32) {
        const int d = first_column + c;
        if (d >= kValue) break;
        if (splits > 1)
          workspace[(split * all_rows + number) * kValue + d] = sums[r][c];
        else
          out[number * kValue + d] = sums[r][c] * last;
      }
      if (splits > 1 && lane == 0 && first_column == 0) {
        float* const ends = workspace + splits * all_rows * kValue + (split * all_rows + number) * 2;
        ends[0] = top, ends[1] = total;
      }
    }
  }
}

// What blocks that shared a tile's keys have left in the workspace: a warp for each row of a head.
template <class T, int kHeads, int kValue, class Sink>
__device__ __forceinline__ void join_splits(int64_t rows, int splits, const float* workspace, T* out,
                                            const Sink& sink_of) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t all_rows = rows * kHeads;
  const int64_t number = static_cast<int64_t>(blockIdx.x) * kAttentionWarps + static_cast<int>(threadIdx.x) / 32;
  if (number >= all_rows) return;
  const float* const ends = workspace + splits * all_rows * kValue;
  float top = -INFINITY, total = 0;
  for (int s = 0; s < splits; ++s) top = Larger()(top, ends[(s * all_rows + number) * 2]);
  for (int s = 0; s < splits; ++s)
    total += ends[(s * all_rows + number) * 2 + 1] * weight_of(ends[(s * all_rows + number) * 2], top);
  const float last = last_factor(top, total, sink_of(static_cast<int>(number % kHeads)));
  for (int d = lane; d < kValue; d += 32) {
    float sum = 0;
    for (int s = 0; s < splits; ++s)
      sum += workspace[(s * all_rows + number) * kValue + d] * weight_of(ends[(s * all_rows + number) * 2], top);
    out[number * kValue + d] = sum * last;
  }
}

}  // namespace
)";

}  // namespace fk
