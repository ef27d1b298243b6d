#include "backend/cpu/quantised/neon_tiles.arm64.h"

#include <algorithm>
#include <bit>

#include "backend/cpu/quantised/neon_format.arm64.h"
#include "core/check.h"

namespace fk {
namespace {

// Elements of k per pass: 32 rows of them are half of the L1 cache of a server core.
constexpr int64_t kTileDepth = 1024;
// From more tiles on, the products of a block take far longer than to read the next one.
constexpr int64_t kFewTiles = 4;
constexpr int64_t kTaskPanels = kTaskRows / kTileRows;
constexpr int64_t kSmallestGroup = 16;
constexpr int64_t kPanelScales = kTileDepth / kSmallestGroup * kTileRows;

struct TileOperands {
  const int8_t* x;  // [k / 4][8][4]
  const float* x_scales;
  const float* x_sums;
  const int8_t* w;  // likewise, with gaps of so many bytes between groups
  int64_t w_gap;
  const float* w_scales;
  const float* w_zeros;  // -kZero times the scales
  const float* w_minimums;
  int64_t k;
  float* c;  // [8 tokens][kTaskRows]: added to
  // With few tiles: packed weights that are used later. A part of them is prefetched for every group, so that memory is
  // read while products are computed.
  const std::byte* next;
  int64_t next_bytes;  // of each group
};

using neon::kZeroBits;  // sums start there
constexpr float kZero = std::bit_cast<float>(kZeroBits);
alignas(16) const int32_t kZeroTile[8] = {kZeroBits, kZeroBits, kZeroBits, kZeroBits,
                                          kZeroBits, kZeroBits, kZeroBits, kZeroBits};

// Four tokens at a time, whose 8 integer and 8 float sums stay in registers: storing a vector takes the time of a
// product too. Assembly, because g++ 12 keeps some of them in memory. Integer sums of token t are in v(16 + 2 t) and
// v(17 + 2 t).
#define FK_DOT(even, odd, lane)              \
  "sdot v" #even ".4s, v0.16b, v2.4b[" #lane \
  "]\n\t"                                    \
  "sdot v" #odd ".4s, v1.16b, v2.4b[" #lane "]\n\t"
#define FK_DOT_STEPS(steps)                                                                                      \
  "ldp q16, q17, [%[zero]]\n\tldp q18, q19, [%[zero]]\n\tldp q20, q21, [%[zero]]\n\tldp q22, q23, [%[zero]]\n\t" \
  ".rept " #steps "\n\tldp q0, q1, [%[w]], #32\n\tldr q2, [%[x]], #32\n\t" FK_DOT(16, 17, 0) FK_DOT(18, 19, 1)   \
      FK_DOT(20, 21, 2) FK_DOT(22, 23, 3) ".endr\n\t"
// c += (sums * scale of w - zero * scale of w) * scale of x, in two instructions: the difference starts at the second
// product, which is loaded. It is exact: scales of w have 19 bits at most, the zero has two, and FMLA rounds once.
#define FK_SCALE(even, odd, t_even, t_odd, c_even, c_odd, lane)                                                    \
  "ldp q" #t_even ", q" #t_odd                                                                                     \
  ", [%[w_zeros]]\n\t"                                                                                             \
  "fmla v" #t_even ".4s, v" #even ".4s, v0.4s\n\tfmla v" #t_odd ".4s, v" #odd                                      \
  ".4s, v1.4s\n\t"                                                                                                 \
  "fmla %[" #c_even "].4s, v" #t_even ".4s, v2.s[" #lane "]\n\tfmla %[" #c_odd "].4s, v" #t_odd ".4s, v2.s[" #lane \
  "]\n\t"
#define FK_SCALES                                                                                 \
  "ldp q0, q1, [%[w_scales]], #32\n\tldr q2, [%[x_scales]]\n\t" FK_SCALE(16, 17, 4, 5, c0, c1, 0) \
      FK_SCALE(18, 19, 6, 7, c2, c3, 1) FK_SCALE(20, 21, 4, 5, c4, c5, 2) FK_SCALE(22, 23, 6, 7, c6, c7, 3)
// c -= minimum of w * sum of x
#define FK_MINIMUM(c_even, c_odd, lane) \
  "fmls %[" #c_even "].4s, v0.4s, v2.s[" #lane "]\n\tfmls %[" #c_odd "].4s, v1.4s, v2.s[" #lane "]\n\t"
#define FK_MINIMUMS                                                                                    \
  "ldp q0, q1, [%[w_minimums]]\n\tldr q2, [%[x_sums]]\n\t" FK_MINIMUM(c0, c1, 0) FK_MINIMUM(c2, c3, 1) \
      FK_MINIMUM(c4, c5, 2) FK_MINIMUM(c6, c7, 3)
#define FK_GROUP(text)                                                                                                \
  asm volatile(text                                                                                                   \
               : [w] "+r"(w), [x] "+r"(x), [w_scales] "+r"(w_scales), [c0] "+w"(c[0]), [c1] "+w"(c[1]),               \
                 [c2] "+w"(c[2]), [c3] "+w"(c[3]), [c4] "+w"(c[4]), [c5] "+w"(c[5]), [c6] "+w"(c[6]), [c7] "+w"(c[7]) \
               : [zero] "r"(kZeroTile), [x_scales] "r"(x_scales), [w_zeros] "r"(w_zeros),                             \
                 [w_minimums] "r"(w_minimums), [x_sums] "r"(x_sums)                                                   \
               : "memory", "v0", "v1", "v2", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22", \
                 "v23")

template <int64_t kGroup, bool kMinimums, bool kFew>
FK_TARGET_DOT void multiply_half(const TileOperands& task, int64_t half) {
  static_assert(!kMinimums || kGroup == kRoundedGroup);
  const int8_t *w = task.w, *x = task.x + half * 16;
  const float* w_scales = task.w_scales;
  const std::byte* next = task.next + half * (task.k / kGroup) * task.next_bytes;
  float* const to = task.c + half * 4 * kTaskRows;
  float32x4_t c[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) c[i] = vld1q_f32(to + i / 2 * kTaskRows + i % 2 * 4);
  for (int64_t at = 0; at < task.k; at += kGroup) {
    if constexpr (kFew) {
      __builtin_prefetch(next, 0, 2);
      __builtin_prefetch(next + task.next_bytes / 2, 0, 2);
      next += task.next_bytes;
    }
    int64_t x_group = at / kRoundedGroup * 8 + half * 4;
    const float *x_scales = task.x_scales + x_group, *x_sums = task.x_sums + x_group;
    const float *w_zeros = task.w_zeros + at / kGroup * 8, *w_minimums = task.w_minimums + at / kGroup * 8;
    if constexpr (kMinimums)
      FK_GROUP(FK_DOT_STEPS(8) FK_SCALES FK_MINIMUMS);
    else if constexpr (kGroup == 32)
      FK_GROUP(FK_DOT_STEPS(8) FK_SCALES);
    else
      FK_GROUP(FK_DOT_STEPS(4) FK_SCALES);
    if constexpr (kFew) w += task.w_gap;
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) vst1q_f32(to + i / 2 * kTaskRows + i % 2 * 4, c[i]);
}

template <int64_t kGroup, bool kMinimums, bool kFew>
FK_TARGET_DOT void multiply_tile(const TileOperands& task) {
  multiply_half<kGroup, kMinimums, kFew>(task, 0);
  multiply_half<kGroup, kMinimums, kFew>(task, 1);
}

template <bool kFew>
auto multiply_of(const WeightFormat& format) {
  return format.scale_elements == kSmallestGroup ? multiply_tile<16, false, kFew>
         : format.has_minimums                   ? multiply_tile<32, true, kFew>
                                                 : multiply_tile<32, false, kFew>;
}

FK_TARGET_DOT void pack_tile(const RoundedRows& x, int64_t tile, const PackedRows& to) {
  int64_t first = tile * kTileRows, groups = x.groups();
  int8_t* codes = to.codes + tile * kTileRows * x.k;
  for (int64_t half = 0; half < 2; ++half) {
    for (int64_t k = 0; k < x.k; k += 16) {
      int8x16_t rows[4];
      for (int64_t r = 0; r < 4; ++r) {
        int64_t t = first + half * 4 + r;
        rows[r] = t < x.m ? vld1q_s8(x.codes + t * x.k + k) : vdupq_n_s8(0);
      }
      neon::store_transposed(rows, codes + k * kTileRows + half * 16, 32);
    }
  }
  for (int64_t r = 0; r < kTileRows; ++r) {
    bool present = first + r < x.m;
    for (int64_t g = 0; g < groups; ++g) {
      to.scales[(tile * groups + g) * kTileRows + r] = present ? x.scales[(first + r) * groups + g] : 0;
      to.sums[(tile * groups + g) * kTileRows + r] = present ? x.sums[(first + r) * groups + g] : 0;
    }
  }
}

}  // namespace

PackedRows DotTiles::pack(const RoundedRows& x, Arena& arena, ThreadPool& pool) {
  PackedRows packed{.tiles = (x.m + kTileRows - 1) / kTileRows, .k = x.k};
  int64_t rows = packed.tiles * kTileRows;
  packed.codes = arena.make({{rows, x.k}, DType::kI8}).ptr<int8_t>();
  packed.scales = arena.make({{rows, x.groups()}, DType::kF32}).ptr<float>();
  packed.sums = arena.make({{rows, x.groups()}, DType::kF32}).ptr<float>();
  pool.parallel_for(packed.tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) pack_tile(x, tile, packed);
  });
  return packed;
}

int64_t DotTiles::scratch_bytes(int64_t tiles) {
  return kTaskRows * kTileDepth + 3 * kTaskPanels * kPanelScales * int64_t{sizeof(float)} +
         tiles * kTileRows * kTaskRows * int64_t{sizeof(float)};
}

const float* DotTiles::multiply(const TilesTask& task) {
  const PackedRows& x = *task.x;
  const int64_t group = task.format->scale_elements, row_bytes = task.format->row_bytes(x.k);
  auto* codes = reinterpret_cast<int8_t*>(task.scratch);
  auto* scales = reinterpret_cast<float*>(task.scratch + kTaskRows * kTileDepth);
  float* minimums = scales + kTaskPanels * kPanelScales;
  float* zeros = minimums + kTaskPanels * kPanelScales;
  float* sums = zeros + kTaskPanels * kPanelScales;
  std::fill_n(sums, task.tiles * kTileRows * kTaskRows, 0.0f);
  // Codes of few tiles are read where they are, if the format allows it: to copy them takes a tenth of the time. Copied
  // codes are aligned, which many tiles profit from.
  const bool few = task.tiles <= kFewTiles;
  const int64_t codes_at = few ? task.kernels->codes_at : -1;
  const int64_t gap = codes_at < 0 ? 0 : kTileRows * (task.format->block_bytes - task.format->block_elements);
  FK_CHECK(codes_at < 0 || task.format->block_elements == group);
  auto multiply = few ? multiply_of<true>(*task.format) : multiply_of<false>(*task.format);
  for (int64_t depth = 0; depth < x.k; depth += kTileDepth) {
    int64_t k = std::min(kTileDepth, x.k - depth);
    int64_t panels = (task.rows + kTileRows - 1) / kTileRows;
    // After the last block of these panels come the first ones of the panels behind them. Behind the last panel of all
    // a prefetch does nothing.
    bool last = depth + k == x.k;
    int64_t next_bytes =
        kTileRows * task.format->row_bytes(last ? std::min(kTileDepth, x.k) : std::min(kTileDepth, x.k - depth - k));
    const std::byte* next =
        task.panels + (last ? panels * kTileRows * row_bytes : kTileRows * task.format->row_bytes(depth + k));
    int64_t bytes_of_group = next_bytes / (task.tiles * 2 * (k / group)) + 1;
    const std::byte* packed = task.panels + kTileRows * task.format->row_bytes(depth);
    for (int64_t p = 0; p < panels; ++p) {
      task.kernels->unpack({.panel = packed + p * kTileRows * row_bytes,
                            .k = k,
                            .codes = codes_at < 0 ? codes + p * kTileRows * kTileDepth : nullptr,
                            .scales = scales + p * kPanelScales,
                            .minimums = minimums + p * kPanelScales});
      for (int64_t i = p * kPanelScales; i < p * kPanelScales + k / group * kTileRows; ++i)
        zeros[i] = -kZero * scales[i];
    }
    auto codes_of = [&](int64_t p) {
      if (codes_at < 0) return static_cast<const int8_t*>(codes + p * kTileRows * kTileDepth);
      return reinterpret_cast<const int8_t*>(packed + p * kTileRows * row_bytes + codes_at);
    };
    for (int64_t t = 0; t < task.tiles; ++t) {
      int64_t tile = task.first_tile + t, at = (tile * x.groups() + depth / kRoundedGroup) * kTileRows;
      for (int64_t p = 0; p < panels; ++p)
        multiply({.x = x.codes + tile * kTileRows * x.k + depth * kTileRows,
                  .x_scales = x.scales + at,
                  .x_sums = x.sums + at,
                  .w = codes_of(p),
                  .w_gap = gap,
                  .w_scales = scales + p * kPanelScales,
                  .w_zeros = zeros + p * kPanelScales,
                  .w_minimums = minimums + p * kPanelScales,
                  .k = k,
                  .c = sums + t * kTileRows * kTaskRows + p * kTileRows,
                  .next = next + p * kTileRows * row_bytes + t * next_bytes / task.tiles,
                  .next_bytes = bytes_of_group});
    }
  }
  return sums;
}

}  // namespace fk
