#include "backend/cpu/quantised/neon_tiles.arm64.h"

#include <algorithm>

#include "backend/cpu/quantised/neon_format.arm64.h"

namespace fk {
namespace {

// Elements of k per pass: 32 rows of them are half of the L1 cache of a server core.
constexpr int64_t kTileDepth = 1024;
constexpr int64_t kTaskPanels = kTaskRows / kTileRows;
constexpr int64_t kSmallestGroup = 16;
constexpr int64_t kPanelScales = kTileDepth / kSmallestGroup * kTileRows;

struct TileOperands {
  const int8_t* x;  // [k / 4][8][4]
  const float* x_scales;
  const float* x_sums;
  const int8_t* w;  // likewise
  const float* w_scales;
  const float* w_minimums;
  int64_t k;
  float* c;  // [8 tokens][kTaskRows]: added to
};

// Tokens 4 half .. 4 half + 3 are the lanes of one register of x.
#define FK_DOT_LANES(half, x)                                                   \
  sums[half * 4 + 0][0] = vdotq_laneq_s32(sums[half * 4 + 0][0], w_low, x, 0);  \
  sums[half * 4 + 0][1] = vdotq_laneq_s32(sums[half * 4 + 0][1], w_high, x, 0); \
  sums[half * 4 + 1][0] = vdotq_laneq_s32(sums[half * 4 + 1][0], w_low, x, 1);  \
  sums[half * 4 + 1][1] = vdotq_laneq_s32(sums[half * 4 + 1][1], w_high, x, 1); \
  sums[half * 4 + 2][0] = vdotq_laneq_s32(sums[half * 4 + 2][0], w_low, x, 2);  \
  sums[half * 4 + 2][1] = vdotq_laneq_s32(sums[half * 4 + 2][1], w_high, x, 2); \
  sums[half * 4 + 3][0] = vdotq_laneq_s32(sums[half * 4 + 3][0], w_low, x, 3);  \
  sums[half * 4 + 3][1] = vdotq_laneq_s32(sums[half * 4 + 3][1], w_high, x, 3)

#define FK_SCALE_LANE(token, x, lane)                                                                                 \
  vst1q_f32(c + token * kTaskRows, vfmaq_f32(vld1q_f32(c + token * kTaskRows), vcvtq_f32_s32(sums[token][0]),         \
                                             vmulq_laneq_f32(scales_low, x, lane)));                                  \
  vst1q_f32(c + token * kTaskRows + 4, vfmaq_f32(vld1q_f32(c + token * kTaskRows + 4), vcvtq_f32_s32(sums[token][1]), \
                                                 vmulq_laneq_f32(scales_high, x, lane)))

#define FK_MINIMUM_LANE(token, x, lane)                                                                       \
  vst1q_f32(c + token * kTaskRows, vfmsq_laneq_f32(vld1q_f32(c + token * kTaskRows), minimums_low, x, lane)); \
  vst1q_f32(c + token * kTaskRows + 4, vfmsq_laneq_f32(vld1q_f32(c + token * kTaskRows + 4), minimums_high, x, lane))

template <int64_t kGroup, bool kMinimums>
FK_TARGET_DOT void multiply_tile(const TileOperands& task) {
  const int8_t *w = task.w, *x = task.x;
  float* const c = task.c;
  for (int64_t at = 0; at < task.k; at += kGroup) {
    int32x4_t sums[8][2];
#pragma GCC unroll 8
    for (auto& pair : sums) pair[0] = pair[1] = vdupq_n_s32(0);
#pragma GCC unroll 8
    for (int64_t step = 0; step < kGroup / 4; ++step, w += 32, x += 32) {
      int8x16_t w_low = vld1q_s8(w), w_high = vld1q_s8(w + 16), x_low = vld1q_s8(x), x_high = vld1q_s8(x + 16);
      FK_DOT_LANES(0, x_low);
      FK_DOT_LANES(1, x_high);
    }
    const float* w_scales = task.w_scales + at / kGroup * 8;
    const float* x_scales = task.x_scales + at / kRoundedGroup * 8;
    float32x4_t scales_low = vld1q_f32(w_scales), scales_high = vld1q_f32(w_scales + 4);
    float32x4_t low = vld1q_f32(x_scales), high = vld1q_f32(x_scales + 4);
    FK_SCALE_LANE(0, low, 0);
    FK_SCALE_LANE(1, low, 1);
    FK_SCALE_LANE(2, low, 2);
    FK_SCALE_LANE(3, low, 3);
    FK_SCALE_LANE(4, high, 0);
    FK_SCALE_LANE(5, high, 1);
    FK_SCALE_LANE(6, high, 2);
    FK_SCALE_LANE(7, high, 3);
    if constexpr (kMinimums) {
      static_assert(kGroup == kRoundedGroup);
      const float* w_minimums = task.w_minimums + at / kGroup * 8;
      const float* x_sums = task.x_sums + at / kRoundedGroup * 8;
      float32x4_t minimums_low = vld1q_f32(w_minimums), minimums_high = vld1q_f32(w_minimums + 4);
      low = vld1q_f32(x_sums);
      high = vld1q_f32(x_sums + 4);
      FK_MINIMUM_LANE(0, low, 0);
      FK_MINIMUM_LANE(1, low, 1);
      FK_MINIMUM_LANE(2, low, 2);
      FK_MINIMUM_LANE(3, low, 3);
      FK_MINIMUM_LANE(4, high, 0);
      FK_MINIMUM_LANE(5, high, 1);
      FK_MINIMUM_LANE(6, high, 2);
      FK_MINIMUM_LANE(7, high, 3);
    }
  }
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

PackedRows pack_rows(const RoundedRows& x, Arena& arena, ThreadPool& pool) {
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

int64_t tiles_scratch_bytes(int64_t tiles) {
  return kTaskRows * kTileDepth + 2 * kTaskPanels * kPanelScales * int64_t{sizeof(float)} +
         tiles * kTileRows * kTaskRows * int64_t{sizeof(float)};
}

const float* multiply_tiles(const TilesTask& task) {
  const PackedRows& x = *task.x;
  const int64_t group = task.format->scale_elements;
  auto* codes = reinterpret_cast<int8_t*>(task.scratch);
  auto* scales = reinterpret_cast<float*>(task.scratch + kTaskRows * kTileDepth);
  float* minimums = scales + kTaskPanels * kPanelScales;
  float* sums = minimums + kTaskPanels * kPanelScales;
  std::fill_n(sums, task.tiles * kTileRows * kTaskRows, 0.0f);
  auto multiply = group == kSmallestGroup     ? multiply_tile<16, false>
                  : task.format->has_minimums ? multiply_tile<32, true>
                                              : multiply_tile<32, false>;
  for (int64_t depth = 0; depth < x.k; depth += kTileDepth) {
    int64_t k = std::min(kTileDepth, x.k - depth);
    int64_t panels = (task.rows + kTileRows - 1) / kTileRows;
    for (int64_t p = 0; p < panels; ++p)
      task.kernels->panel({.w = task.w + p * kTileRows * task.w_stride + task.format->row_bytes(depth),
                           .w_stride = task.w_stride,
                           .rows = std::min(kTileRows, task.rows - p * kTileRows),
                           .k = k,
                           .codes = codes + p * kTileRows * kTileDepth,
                           .scales = scales + p * kPanelScales,
                           .minimums = minimums + p * kPanelScales});
    for (int64_t t = 0; t < task.tiles; ++t) {
      int64_t tile = task.first_tile + t, at = (tile * x.groups() + depth / kRoundedGroup) * kTileRows;
      for (int64_t p = 0; p < panels; ++p)
        multiply({.x = x.codes + tile * kTileRows * x.k + depth * kTileRows,
                  .x_scales = x.scales + at,
                  .x_sums = x.sums + at,
                  .w = codes + p * kTileRows * kTileDepth,
                  .w_scales = scales + p * kPanelScales,
                  .w_minimums = minimums + p * kPanelScales,
                  .k = k,
                  .c = sums + t * kTileRows * kTaskRows + p * kTileRows});
    }
  }
  return sums;
}

}  // namespace fk
