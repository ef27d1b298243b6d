#include "backend/cpu/quantised/mmla_tiles.arm64.h"

#include <algorithm>
#include <bit>

#include "backend/cpu/quantised/neon_format.arm64.h"
#include "core/check.h"

#define FK_TARGET_I8MM __attribute__((target("arch=armv8.2-a+dotprod+i8mm")))

namespace fk {
namespace {

constexpr int64_t kTokens = MmlaTiles::kTokens, kPairs = kTokens / 2, kRowPairs = kPanelRows / 2;
// Elements of k per pass: 32 rows of them, with their scales and a tile of x, are half of an L1 cache of 64 KiB.
constexpr int64_t kPassDepth = 512;
constexpr int64_t kPassPanels = kTaskRows / kPanelRows;
constexpr int64_t kShortScales = 16;
constexpr int64_t kSumsOfTile = kTokens * kPanelRows;  // of one panel
// What belongs to a group of eight rows: for each pair of rows the scales (a, b, a, b), the same times -kMmlaZero, and
// the minimums.
constexpr int64_t kFactors = kRowPairs * 4, kFactorsOfGroup = 3 * kFactors;
constexpr int64_t kFactorsOfPanel = kPassDepth / kShortScales * kFactorsOfGroup;
constexpr int64_t kRowScales = kPassDepth / kShortScales * kPanelRows;
constexpr float kMmlaZero = std::bit_cast<float>(neon::kZeroBits);
alignas(64) const int32_t kMmlaStart[8] = {neon::kZeroBits, neon::kZeroBits, neon::kZeroBits, neon::kZeroBits,
                                           neon::kZeroBits, neon::kZeroBits, neon::kZeroBits, neon::kZeroBits};

alignas(64) const float kNoSums[kSumsOfTile] = {};

struct MmlaOperands {
  const int8_t* x;  // a tile
  const float* x_sums;
  const int8_t* w;  // [k / 8][8][8]
  const float* w_factors;
  int64_t k;
  const int8_t* next;  // of x: from here on 64 bytes are prefetched for every 32 elements of k
  // [3][4][4], of each pair of tokens and pair of rows: the sums, and where they go with the products added
  const float* c;
  float* to;
};

// A tile of x, for one pass, is one stretch of memory: codes [k / 8][6][8], then scales [k / 32][3][4], of a pair of
// tokens: a, a, b, b. Passes are one after the other, so that each reads memory in order. Sums are in the same order in
// memory of their own, because few formats need them and the rest should stay in the L2 cache.
constexpr int64_t kGroupScales = kPairs * 4;
constexpr int64_t codes_bytes(int64_t k) { return k * kTokens; }
constexpr int64_t scales_of(int64_t k) { return k / kRoundedGroup * kGroupScales; }
constexpr int64_t tile_bytes(int64_t k) { return codes_bytes(k) + scales_of(k) * int64_t{sizeof(float)}; }
struct PackedTile {
  int8_t* codes;
  float *scales, *sums;
};
PackedTile tile_of(const PackedRows& x, int64_t depth, int64_t tile) {
  int64_t k = std::min(kPassDepth, x.k - depth);
  int8_t* codes = x.codes + x.tiles * tile_bytes(depth) + tile * tile_bytes(k);
  return {codes, reinterpret_cast<float*>(codes + codes_bytes(k)),
          x.sums + x.tiles * scales_of(depth) + tile * scales_of(k)};
}

// Assembly, because all registers are in use: integer sums of tokens 2 p and 2 p + 1 with rows 2 j and 2 j + 1 are in
// v(8 + 4 p + j), float sums in v(20 + 4 p + j).
#define FK_MMLA_PAIR(a, b, c, d, x)                                                                          \
  "smmla v" #a ".4s, v" #x ".16b, v0.16b\n\tsmmla v" #b ".4s, v" #x ".16b, v1.16b\n\tsmmla v" #c ".4s, v" #x \
  ".16b, v2.16b\n\tsmmla v" #d ".4s, v" #x ".16b, v3.16b\n\t"
// The steps are a list of numbers: written as offsets, addresses need no instructions of their own.
#define FK_MMLA_STEPS(...)                                                                                         \
  "ldp q8, q9, [%[start]]\n\tldp q10, q11, [%[start]]\n\tldp q12, q13, [%[start]]\n\tldp q14, q15, [%[start]]\n\t" \
  "ldp q16, q17, [%[start]]\n\tldp q18, q19, [%[start]]\n\t.irp step, " #__VA_ARGS__                               \
  "\n\tldp q0, q1, [%[w], #64 * \\step]\n\tldp q2, q3, [%[w], #64 * \\step + 32]\n\tldp q4, q5, [%[x], #48 * "     \
  "\\step]\n\tldr q6, [%[x], #48 * \\step + 32]\n\t" FK_MMLA_PAIR(8, 9, 10, 11, 4) FK_MMLA_PAIR(12, 13, 14, 15, 5) \
      FK_MMLA_PAIR(16, 17, 18, 19, 6) ".endr\n\t"
// c += (sums * scale of w - zero * scale of w) * scale of x, as in neon_tiles.arm64.cpp, for one pair of rows
#define FK_MMLA_SCALE(at, zeros_at, a, b, c, c_a, c_b, c_c)                                                          \
  "ldr q0, [%[factors], #" #zeros_at "]\n\tldr q1, [%[factors], #" #zeros_at "]\n\tldr q2, [%[factors], #" #zeros_at \
  "]\n\tldr q3, [%[factors], #" #at "]\n\tfmla v0.4s, v" #a ".4s, v3.4s\n\tfmla v1.4s, v" #b                         \
  ".4s, v3.4s\n\tfmla v2.4s, v" #c ".4s, v3.4s\n\tfmla v" #c_a ".4s, v0.4s, v4.4s\n\tfmla v" #c_b                    \
  ".4s, v1.4s, v5.4s\n\tfmla v" #c_c ".4s, v2.4s, v6.4s\n\t"
#define FK_MMLA_SCALES                                                                                      \
  "ldp q4, q5, [%[x_scales]]\n\tldr q6, [%[x_scales], #32]\n\t" FK_MMLA_SCALE(0, 64, 8, 12, 16, 20, 24, 28) \
      FK_MMLA_SCALE(16, 80, 9, 13, 17, 21, 25, 29) FK_MMLA_SCALE(32, 96, 10, 14, 18, 22, 26, 30)            \
          FK_MMLA_SCALE(48, 112, 11, 15, 19, 23, 27, 31)
// c -= minimum of w * sum of x
#define FK_MMLA_MINIMUM(c0, c1, c2, c3, x)                                                                      \
  "fmls v" #c0 ".4s, v0.4s, v" #x ".4s\n\tfmls v" #c1 ".4s, v1.4s, v" #x ".4s\n\tfmls v" #c2 ".4s, v2.4s, v" #x \
  ".4s\n\tfmls v" #c3 ".4s, v3.4s, v" #x ".4s\n\t"
#define FK_MMLA_MINIMUMS                                                                                            \
  "ldp q0, q1, [%[factors], #128]\n\tldp q2, q3, [%[factors], #160]\n\tldp q4, q5, [%[x_sums]]\n\tldr q6, "         \
  "[%[x_sums], "                                                                                                    \
  "#32]\n\tadd %[x_sums], %[x_sums], #48\n\t" FK_MMLA_MINIMUM(20, 21, 22, 23, 4) FK_MMLA_MINIMUM(24, 25, 26, 27, 5) \
      FK_MMLA_MINIMUM(28, 29, 30, 31, 6)
#define FK_MMLA_NEXT "add %[factors], %[factors], #192\n\t"
#define FK_MMLA_PREFETCH "prfm pldl1keep, [%[next]]\n\tadd %[next], %[next], #64\n\t"
#define FK_MMLA_NEXT_OF_X "add %[x_scales], %[x_scales], #48\n\tadd %[w], %[w], #256\n\tadd %[x], %[x], #192\n\t"
#define FK_MMLA_SUMS(op, c)                                                                                        \
#op " q20, q21, [%[" #c "]]\n\t" #op " q22, q23, [%[" #c "], #32]\n\t" #op " q24, q25, [%[" #c "], #64]\n\t" #op \
      " q26, q27, [%[" #c "], #96]\n\t" #op " q28, q29, [%[" #c "], #128]\n\t" #op " q30, q31, [%[" #c "], #160]\n\t"
// 32 elements of k at a time
#define FK_MMLA_LOOP(body)                                                                                         \
  asm volatile(FK_MMLA_SUMS(ldp, c) "1:\n\t" body "subs %[k], %[k], #32\n\tb.gt 1b\n\t" FK_MMLA_SUMS(stp, to)      \
               : [w] "+r"(w), [x] "+r"(x), [k] "+r"(k), [x_scales] "+r"(x_scales), [x_sums] "+r"(x_sums),          \
                 [factors] "+r"(factors), [next] "+r"(next)                                                        \
               : [start] "r"(kMmlaStart), [c] "r"(task.c), [to] "r"(task.to)                                       \
               : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v8", "v9", "v10", "v11", "v12", "v13", \
                 "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", \
                 "v28", "v29", "v30", "v31")

template <int64_t kGroup, bool kMinimums>
FK_TARGET_I8MM void multiply_mmla_tile(const MmlaOperands& task) {
  static_assert(!kMinimums || kGroup == kRoundedGroup);
  const int8_t *w = task.w, *x = task.x, *next = task.next;
  const auto *x_scales = reinterpret_cast<const float*>(x + codes_bytes(task.k)), *factors = task.w_factors;
  const float* x_sums = task.x_sums;
  int64_t k = task.k;
  if constexpr (kMinimums)
    FK_MMLA_LOOP(FK_MMLA_PREFETCH FK_MMLA_STEPS(0, 1, 2, 3)
                     FK_MMLA_SCALES FK_MMLA_MINIMUMS FK_MMLA_NEXT FK_MMLA_NEXT_OF_X);
  else if constexpr (kGroup == kRoundedGroup)
    FK_MMLA_LOOP(FK_MMLA_PREFETCH FK_MMLA_STEPS(0, 1, 2, 3) FK_MMLA_SCALES FK_MMLA_NEXT FK_MMLA_NEXT_OF_X);
  else
    FK_MMLA_LOOP(FK_MMLA_PREFETCH FK_MMLA_STEPS(0, 1) FK_MMLA_SCALES FK_MMLA_NEXT FK_MMLA_STEPS(2, 3)
                     FK_MMLA_SCALES FK_MMLA_NEXT FK_MMLA_NEXT_OF_X);
}

auto mmla_kernel_of(const WeightFormat& format) {
  return format.scale_elements == kShortScales ? multiply_mmla_tile<16, false>
         : format.has_minimums                 ? multiply_mmla_tile<32, true>
                                               : multiply_mmla_tile<32, false>;
}

void pack_mmla_tile(const RoundedRows& x, int64_t tile, const PackedRows& to) {
  const int64_t groups = x.groups();
  for (int64_t depth = 0; depth < x.k; depth += kPassDepth) {
    const int64_t end = std::min(depth + kPassDepth, x.k);
    const PackedTile packed = tile_of(to, depth, tile);
    for (int64_t pair = 0; pair < kPairs; ++pair) {
      const int64_t a = tile * kTokens + 2 * pair, b = a + 1;
      int8_t* codes = packed.codes + pair * 16;
      for (int64_t k = depth; k < end; k += 16, codes += 2 * kTokens * 8) {
        int64x2_t of_a = vreinterpretq_s64_s8(a < x.m ? vld1q_s8(x.codes + a * x.k + k) : vdupq_n_s8(0)),
                  of_b = vreinterpretq_s64_s8(b < x.m ? vld1q_s8(x.codes + b * x.k + k) : vdupq_n_s8(0));
        vst1q_s8(codes, vreinterpretq_s8_s64(vzip1q_s64(of_a, of_b)));
        vst1q_s8(codes + kTokens * 8, vreinterpretq_s8_s64(vzip2q_s64(of_a, of_b)));
      }
      auto twice = [&](const float* of, float* out) {
        out += pair * 4;
        for (int64_t g = depth / kRoundedGroup; g < end / kRoundedGroup; ++g, out += kGroupScales) {
          float of_a = a < x.m ? of[a * groups + g] : 0, of_b = b < x.m ? of[b * groups + g] : 0;
          vst1q_f32(out, vcombine_f32(vdup_n_f32(of_a), vdup_n_f32(of_b)));
        }
      };
      twice(x.scales, packed.scales);
      twice(x.sums, packed.sums);
    }
  }
}

// Words of four codes of eight rows, [k / 4][8][4], become [k / 8][8][8]. Groups of 32 elements are so many bytes
// apart.
void join_words(const int8_t* from, int64_t group_bytes, int64_t k, int8_t* to) {
  for (int64_t at = 0; at < k; at += kRoundedGroup, from += group_bytes, to += kRoundedGroup * kPanelRows) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRoundedGroup * kPanelRows; i += 64) {
      int32x4_t low[2], high[2];
#pragma GCC unroll 2
      for (int64_t four = 0; four < 2; ++four) {
        low[four] = vreinterpretq_s32_s8(vld1q_s8(from + i + 16 * four));
        high[four] = vreinterpretq_s32_s8(vld1q_s8(from + i + 32 + 16 * four));
      }
#pragma GCC unroll 2
      for (int64_t four = 0; four < 2; ++four) {
        vst1q_s8(to + i + 32 * four, vreinterpretq_s8_s32(vzip1q_s32(low[four], high[four])));
        vst1q_s8(to + i + 32 * four + 16, vreinterpretq_s8_s32(vzip2q_s32(low[four], high[four])));
      }
    }
  }
}

// One number for each of eight rows: pairs of them, each pair twice, times a factor.
void double_pairs(const float* from, int64_t groups, float factor, float* to) {
  for (int64_t g = 0; g < groups; ++g, from += kPanelRows, to += kFactorsOfGroup)
#pragma GCC unroll 4
    for (int64_t j = 0; j < kRowPairs; ++j) {
      float32x2_t pair = vmul_n_f32(vld1_f32(from + 2 * j), factor);
      vst1q_f32(to + 4 * j, vcombine_f32(pair, pair));
    }
}

// Sums of a tile, [3][4][4], as rows of kTaskRows, one for each token.
void separate_tokens(const float* sums, float* to) {
#pragma GCC unroll 12
  for (int64_t i = 0; i < kPairs * kRowPairs; ++i) {
    float* first = to + i / kRowPairs * 2 * kTaskRows + i % kRowPairs * 2;
    vst1_f32(first, vld1_f32(sums + 4 * i));
    vst1_f32(first + kTaskRows, vld1_f32(sums + 4 * i + 2));
  }
}

}  // namespace

PackedRows MmlaTiles::pack(const RoundedRows& x, Arena& arena, ThreadPool& pool) {
  PackedRows packed{.tiles = (x.m + kTokens - 1) / kTokens, .k = x.k};
  packed.codes = arena.make({{packed.tiles, tile_bytes(x.k)}, DType::kI8}).ptr<int8_t>();
  packed.sums = arena.make({{packed.tiles, scales_of(x.k)}, DType::kF32}).ptr<float>();
  pool.parallel_for(packed.tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) pack_mmla_tile(x, tile, packed);
  });
  return packed;
}

int64_t MmlaTiles::scratch_bytes(int64_t tiles) {
  const int64_t floats = kPassPanels * kFactorsOfPanel + 2 * kRowScales + 2 * tiles * kTokens * kTaskRows;
  return kTaskRows * kPassDepth + floats * int64_t{sizeof(float)};
}

const float* MmlaTiles::multiply(const TilesTask& task) {
  const PackedRows& x = *task.x;
  const WeightFormat& format = *task.format;
  const int64_t group = format.scale_elements, row_bytes = format.row_bytes(x.k), codes_at = task.kernels->codes_at;
  const int64_t panels = (task.rows + kPanelRows - 1) / kPanelRows;
  FK_CHECK(codes_at < 0 || format.block_elements == kRoundedGroup);
  auto* codes = reinterpret_cast<int8_t*>(task.scratch);
  auto* factors = reinterpret_cast<float*>(task.scratch + kTaskRows * kPassDepth);
  float* scales = factors + kPassPanels * kFactorsOfPanel;
  float* minimums = scales + kRowScales;
  float* partial = minimums + kRowScales;
  float* sums = partial + task.tiles * kTokens * kTaskRows;
  alignas(64) float last_sums[kSumsOfTile];
  auto multiply = mmla_kernel_of(format);
  for (int64_t depth = 0; depth < x.k; depth += kPassDepth) {
    const int64_t k = std::min(kPassDepth, x.k - depth);
    for (int64_t p = 0; p < panels; ++p) {
      const std::byte* packed = task.panels + kPanelRows * (p * row_bytes + format.row_bytes(depth));
      int8_t* to = codes + p * kPanelRows * kPassDepth;
      task.kernels->unpack(
          {.panel = packed, .k = k, .codes = codes_at < 0 ? to : nullptr, .scales = scales, .minimums = minimums});
      if (codes_at < 0)
        join_words(to, kRoundedGroup * kPanelRows, k, to);
      else
        join_words(reinterpret_cast<const int8_t*>(packed + codes_at), kPanelRows * format.block_bytes, k, to);
      float* own = factors + p * kFactorsOfPanel;
      double_pairs(scales, k / group, 1, own);
      double_pairs(scales, k / group, -kMmlaZero, own + kFactors);
      if (format.has_minimums) double_pairs(minimums, k / group, 1, own + 2 * kFactors);
    }
    const bool first = depth == 0, last = depth + k == x.k;
    // Read while products are computed: the weights of the next pass, or the first ones of the panels behind these.
    // Behind the last panel of all a prefetch does nothing.
    const std::byte* next = task.panels + kPanelRows * (last ? panels * row_bytes : format.row_bytes(depth + k));
    const int64_t next_bytes = kPanelRows * format.row_bytes(std::min(kPassDepth, last ? x.k : x.k - depth - k));
    for (int64_t t = 0, begin = 0, end = 0; t < task.tiles; ++t, begin = end) {
      const PackedTile tile = tile_of(x, depth, task.first_tile + t);
      end = next_bytes * (t + 1) / task.tiles;
      for (int64_t p = 0; p < panels; ++p) {
        float* own = partial + (t * kPassPanels + p) * kSumsOfTile;
        for (int64_t i = begin; i < end; i += 64) __builtin_prefetch(next + p * kPanelRows * row_bytes + i, 0, 2);
        multiply({.x = tile.codes,
                  .x_sums = tile.sums,
                  .w = codes + p * kPanelRows * kPassDepth,
                  .w_factors = factors + p * kFactorsOfPanel,
                  .k = k,
                  .next = tile.codes + tile_bytes(k) + p * k / kRoundedGroup * 64,
                  .c = first ? kNoSums : own,
                  .to = last ? last_sums : own});
        if (last) separate_tokens(last_sums, sums + t * kTokens * kTaskRows + p * kPanelRows);
      }
    }
  }
  return sums;
}

}  // namespace fk
