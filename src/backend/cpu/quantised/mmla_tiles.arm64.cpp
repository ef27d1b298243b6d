#include "backend/cpu/quantised/mmla_tiles.arm64.h"

#include <algorithm>
#include <bit>

#include "backend/cpu/quantised/neon_format.arm64.h"
#include "core/check.h"

#define FK_TARGET_I8MM __attribute__((target("arch=armv8.2-a+dotprod+i8mm")))

namespace fk {
namespace {

constexpr int64_t kTokens = MmlaTiles::kTokens, kPairs = kTokens / 2, kRowPairs = kPanelRows / 2;
// Elements of k per pass: 32 rows of them, with their scales, stay in an L1 cache of 64 KiB.
constexpr int64_t kPassDepth = 512;
constexpr int64_t kPanels = kTaskRows / kPanelRows;
constexpr int64_t kShortGroup = 16;
constexpr int64_t kSumsOfTile = kTokens * kPanelRows;  // of one panel
// What belongs to a group of eight rows: for each pair of rows the scales (a, b, a, b), the same times -kMmlaZero, and
// the minimums.
constexpr int64_t kFactors = kRowPairs * 4, kFactorsOfGroup = 3 * kFactors;
constexpr int64_t kFactorsOfPanel = kPassDepth / kShortGroup * kFactorsOfGroup;
constexpr int64_t kRowScales = kPassDepth / kShortGroup * kPanelRows;
constexpr float kMmlaZero = std::bit_cast<float>(neon::kZeroBits);
alignas(16) const int32_t kMmlaStart[8] = {neon::kZeroBits, neon::kZeroBits, neon::kZeroBits, neon::kZeroBits,
                                           neon::kZeroBits, neon::kZeroBits, neon::kZeroBits, neon::kZeroBits};

struct MmlaOperands {
  const int8_t* x;  // [k / 8][6][8]
  const float *x_scales, *x_sums;
  const int8_t* w;  // [k / 8][8][8]
  const float* w_factors;
  int64_t k;
  float* c;  // [3][4][4], of each pair of tokens and pair of rows: added to
};

// Assembly, because all registers are in use: integer sums of tokens 2 p and 2 p + 1 with rows 2 j and 2 j + 1 are in
// v(8 + 4 p + j), float sums in v(20 + 4 p + j).
#define FK_MMLA_PAIR(a, b, c, d, x)                                                                          \
  "smmla v" #a ".4s, v" #x ".16b, v0.16b\n\tsmmla v" #b ".4s, v" #x ".16b, v1.16b\n\tsmmla v" #c ".4s, v" #x \
  ".16b, v2.16b\n\tsmmla v" #d ".4s, v" #x ".16b, v3.16b\n\t"
#define FK_MMLA_STEPS(steps)                                                                                       \
  "ldp q8, q9, [%[start]]\n\tldp q10, q11, [%[start]]\n\tldp q12, q13, [%[start]]\n\tldp q14, q15, [%[start]]\n\t" \
  "ldp q16, q17, [%[start]]\n\tldp q18, q19, [%[start]]\n\t.rept " #steps                                          \
  "\n\tldp q0, q1, [%[w]], #32\n\tldp q2, q3, [%[w]], #32\n\tldp q4, q5, [%[x]], #32\n\tldr q6, [%[x]], "          \
  "#16\n\t" FK_MMLA_PAIR(8, 9, 10, 11, 4) FK_MMLA_PAIR(12, 13, 14, 15, 5) FK_MMLA_PAIR(16, 17, 18, 19, 6) ".endr\n\t"
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
#define FK_MMLA_NEXT_OF_X "add %[x_scales], %[x_scales], #48\n\t"
#define FK_MMLA_SUMS(op)                                                                            \
#op " q20, q21, [%[c]]\n\t" #op " q22, q23, [%[c], #32]\n\t" #op " q24, q25, [%[c], #64]\n\t" #op \
      " q26, q27, [%[c], #96]\n\t" #op " q28, q29, [%[c], #128]\n\t" #op " q30, q31, [%[c], #160]\n\t"
// 32 elements of k at a time
#define FK_MMLA_LOOP(body)                                                                                         \
  asm volatile(FK_MMLA_SUMS(ldp) "1:\n\t" body "subs %[k], %[k], #32\n\tb.gt 1b\n\t" FK_MMLA_SUMS(stp)             \
               : [w] "+r"(w), [x] "+r"(x), [k] "+r"(k), [x_scales] "+r"(x_scales), [x_sums] "+r"(x_sums),          \
                 [factors] "+r"(factors)                                                                           \
               : [start] "r"(kMmlaStart), [c] "r"(task.c)                                                          \
               : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v8", "v9", "v10", "v11", "v12", "v13", \
                 "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", \
                 "v28", "v29", "v30", "v31")

template <int64_t kGroup, bool kMinimums>
FK_TARGET_I8MM void multiply_mmla_tile(const MmlaOperands& task) {
  static_assert(!kMinimums || kGroup == kRoundedGroup);
  const int8_t *w = task.w, *x = task.x;
  const float *x_scales = task.x_scales, *x_sums = task.x_sums, *factors = task.w_factors;
  int64_t k = task.k;
  if constexpr (kMinimums)
    FK_MMLA_LOOP(FK_MMLA_STEPS(4) FK_MMLA_SCALES FK_MMLA_MINIMUMS FK_MMLA_NEXT FK_MMLA_NEXT_OF_X);
  else if constexpr (kGroup == kRoundedGroup)
    FK_MMLA_LOOP(FK_MMLA_STEPS(4) FK_MMLA_SCALES FK_MMLA_NEXT FK_MMLA_NEXT_OF_X);
  else
    FK_MMLA_LOOP(FK_MMLA_STEPS(2) FK_MMLA_SCALES FK_MMLA_NEXT FK_MMLA_STEPS(2)
                     FK_MMLA_SCALES FK_MMLA_NEXT FK_MMLA_NEXT_OF_X);
}

auto mmla_kernel_of(const WeightFormat& format) {
  return format.scale_elements == kShortGroup ? multiply_mmla_tile<16, false>
         : format.has_minimums                ? multiply_mmla_tile<32, true>
                                              : multiply_mmla_tile<32, false>;
}

void pack_mmla_tile(const RoundedRows& x, int64_t tile, const PackedRows& to) {
  const int64_t first = tile * kTokens, groups = x.groups();
  for (int64_t pair = 0; pair < kPairs; ++pair) {
    const int64_t a = first + 2 * pair, b = a + 1;
    int8_t* codes = to.codes + tile * kTokens * x.k + pair * 16;
    for (int64_t k = 0; k < x.k; k += 16, codes += 2 * kTokens * 8) {
      int64x2_t of_a = vreinterpretq_s64_s8(a < x.m ? vld1q_s8(x.codes + a * x.k + k) : vdupq_n_s8(0)),
                of_b = vreinterpretq_s64_s8(b < x.m ? vld1q_s8(x.codes + b * x.k + k) : vdupq_n_s8(0));
      vst1q_s8(codes, vreinterpretq_s8_s64(vzip1q_s64(of_a, of_b)));
      vst1q_s8(codes + kTokens * 8, vreinterpretq_s8_s64(vzip2q_s64(of_a, of_b)));
    }
    for (int64_t g = 0; g < groups; ++g) {
      auto twice = [&](const float* of, float* out) {
        float of_a = a < x.m ? of[a * groups + g] : 0, of_b = b < x.m ? of[b * groups + g] : 0;
        vst1q_f32(out, vcombine_f32(vdup_n_f32(of_a), vdup_n_f32(of_b)));
      };
      int64_t at = ((tile * groups + g) * kPairs + pair) * 4;
      twice(x.scales, to.scales + at);
      twice(x.sums, to.sums + at);
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

// The sums of a tile, [panels][3][4][4], become [6 tokens][kTaskRows].
void separate_tokens(float* sums) {
  float joined[kPanels * kSumsOfTile];
  std::copy_n(sums, kPanels * kSumsOfTile, joined);
  for (int64_t p = 0; p < kPanels; ++p)
#pragma GCC unroll 12
    for (int64_t i = 0; i < kPairs * kRowPairs; ++i) {
      const float* from = joined + p * kSumsOfTile + i * 4;
      float* to = sums + i / kRowPairs * 2 * kTaskRows + p * kPanelRows + i % kRowPairs * 2;
      vst1_f32(to, vld1_f32(from));
      vst1_f32(to + kTaskRows, vld1_f32(from + 2));
    }
}

}  // namespace

PackedRows MmlaTiles::pack(const RoundedRows& x, Arena& arena, ThreadPool& pool) {
  PackedRows packed{.tiles = (x.m + kTokens - 1) / kTokens, .k = x.k};
  const int64_t rows = packed.tiles * kTokens;
  packed.codes = arena.make({{rows, x.k}, DType::kI8}).ptr<int8_t>();
  packed.scales = arena.make({{rows, x.groups() * 2}, DType::kF32}).ptr<float>();
  packed.sums = arena.make({{rows, x.groups() * 2}, DType::kF32}).ptr<float>();
  pool.parallel_for(packed.tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) pack_mmla_tile(x, tile, packed);
  });
  return packed;
}

int64_t MmlaTiles::scratch_bytes(int64_t tiles) {
  const int64_t floats = kPanels * kFactorsOfPanel + 2 * kRowScales + tiles * kTokens * kTaskRows;
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
  float* scales = factors + kPanels * kFactorsOfPanel;
  float* minimums = scales + kRowScales;
  float* sums = minimums + kRowScales;
  std::fill_n(sums, task.tiles * kTokens * kTaskRows, 0.0f);
  auto multiply = mmla_kernel_of(format);
  for (int64_t depth = 0; depth < x.k; depth += kPassDepth) {
    const int64_t k = std::min(kPassDepth, x.k - depth), groups = k / group;
    for (int64_t p = 0; p < panels; ++p) {
      const std::byte* packed = task.panels + p * kPanelRows * row_bytes + kPanelRows * format.row_bytes(depth);
      int8_t* to = codes + p * kPanelRows * kPassDepth;
      task.kernels->unpack(
          {.panel = packed, .k = k, .codes = codes_at < 0 ? to : nullptr, .scales = scales, .minimums = minimums});
      if (codes_at < 0)
        join_words(to, kRoundedGroup * kPanelRows, k, to);
      else
        join_words(reinterpret_cast<const int8_t*>(packed + codes_at), kPanelRows * format.block_bytes, k, to);
      float* of_panel = factors + p * kFactorsOfPanel;
      double_pairs(scales, groups, 1, of_panel);
      double_pairs(scales, groups, -kMmlaZero, of_panel + kFactors);
      if (format.has_minimums) double_pairs(minimums, groups, 1, of_panel + 2 * kFactors);
    }
    for (int64_t t = 0; t < task.tiles; ++t) {
      const int64_t tile = task.first_tile + t, at = (tile * x.groups() + depth / kRoundedGroup) * kPairs * 4;
      for (int64_t p = 0; p < panels; ++p)
        multiply({.x = x.codes + tile * kTokens * x.k + depth * kTokens,
                  .x_scales = x.scales + at,
                  .x_sums = x.sums + at,
                  .w = codes + p * kPanelRows * kPassDepth,
                  .w_factors = factors + p * kFactorsOfPanel,
                  .k = k,
                  .c = sums + (t * kPanels + p) * kSumsOfTile});
    }
  }
  for (int64_t t = 0; t < task.tiles; ++t) separate_tokens(sums + t * kTokens * kTaskRows);
  return sums;
}

}  // namespace fk
