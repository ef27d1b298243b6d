// The prefill kernel with AMX tiles. Both products are computed transposed, so that a query is a lane of a vector from
// the scores to the output: S^T [key][query] = K Q^T, then O^T [Dh][query] += V^T P^T. The softmax needs no sums across
// a vector, and weights in pairs of keys already have the layout of the second operand of a tile product.
//
// Weights are rounded to bf16 before the product with the values; their sum is computed before that, in f32.
#include <algorithm>
#include <cmath>

#include "backend/cpu/attention/prefill.h"
#include "backend/cpu/matmul/amx_tiles.x86.h"

namespace fk {
namespace {

using amx::kTileBytes;
using amx::kTileColumns;
using amx::kTileRows;

constexpr int64_t kRows = 32;  // queries of a tile: two lanes' worth of vectors and of second operands
constexpr float kLog2e = 1.44269504f;
constexpr float kInfinity = __builtin_inff();

// Dh in whole pairs of tiles, for either product.
int64_t steps_of(int64_t head_size) { return (head_size + kTileColumns - 1) / kTileColumns; }

// A block: keys [kKeysPerBlock / 16][step] tiles of 16 keys by 32 elements; values [kKeysPerBlock / 32][step][2] tiles
// of 16 elements by 32 keys.
int64_t key_bytes(int64_t head_size) { return kKeysPerBlock * steps_of(head_size) * kTileColumns * 2; }
size_t block_bytes(int64_t head_size, int64_t value_size) {
  return static_cast<size_t>(key_bytes(head_size) + key_bytes(value_size));
}

FK_AMX void pack_keys(const PackBlockTask& t) {
  int64_t steps = steps_of(t.head_size);
  for (int64_t j = 0; j < kKeysPerBlock; ++j)
    for (int64_t s = 0; s < steps; ++s) {
      __mmask32 mask = j < t.keys ? avx512::first32(t.head_size - s * kTileColumns) : 0;
      const auto* row = j < t.keys ? static_cast<const uint16_t*>(t.k[j]) + s * kTileColumns : nullptr;
      std::byte* tile = t.block + (j / kTileRows * steps + s) * kTileBytes;
      _mm512_store_si512(tile + j % kTileRows * 64, _mm512_maskz_loadu_epi16(mask, row));
    }
}

// Interleaves element d of keys 2i and 2i+1, then transposes sixteen such pairs by sixteen elements.
FK_AMX void pack_values(const PackBlockTask& t) {
  std::byte* tile = t.block + key_bytes(t.head_size);
  for (int64_t key = 0; key < kKeysPerBlock; key += kTileColumns)
    for (int64_t d = 0; d < steps_of(t.value_size) * kTileColumns; d += kTileRows, tile += kTileBytes) {
      __mmask16 mask = t.value_size > d ? avx512::first16(t.value_size - d) : 0;
      __m512i r[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        int64_t even = key + 2 * i, odd = even + 1;
        __m256i low = even < t.keys ? _mm256_maskz_loadu_epi16(mask, static_cast<const uint16_t*>(t.v[even]) + d)
                                    : _mm256_setzero_si256();
        __m256i high = odd < t.keys ? _mm256_maskz_loadu_epi16(mask, static_cast<const uint16_t*>(t.v[odd]) + d)
                                    : _mm256_setzero_si256();
        r[i] = _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
      }
      avx512::transpose16(r);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) _mm512_store_si512(tile + i * 64, r[i]);
    }
}

void pack(const PackBlockTask& task) {
  pack_keys(task);
  pack_values(task);
}

// 2^x for x <= 0 within 4e-6, far below the rounding of weights to bf16: 2^floor(x) times a polynomial in the rest,
// fitted for the smallest maximum relative error of those that are exact at both ends: 2^0 must be 1, or the lse of a
// single key is wrong and sums are rescaled where the largest score did not change. -infinity gives 0, a NaN stays a
// NaN.
FK_AMX_INLINE __m512 exp2_lanes(__m512 x) {
  __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  __m512 p = _mm512_set1_ps(1.35557473e-2f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.20323690e-2f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.41379763e-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.93032121e-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, x);
}

// Rounded to bf16, lanes of the two interleaved.
FK_AMX_INLINE __m512i pair_up(__m512 even, __m512 odd) {
  const __m512i interleave = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
                                              6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(interleave, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

// Sums of 32 rows by kRows queries in four tile registers.
constexpr int64_t kRowBytes = kRows * 4;

FK_AMX_INLINE void zero_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}
FK_AMX_INLINE void load_sums(const float* from) {
  _tile_loadd(0, from, kRowBytes);
  _tile_loadd(1, from + 16, kRowBytes);
  _tile_loadd(2, from + 16 * kRows, kRowBytes);
  _tile_loadd(3, from + 16 * kRows + 16, kRowBytes);
}
FK_AMX_INLINE void store_sums(float* to) {
  _tile_stored(0, to, kRowBytes);
  _tile_stored(1, to + 16, kRowBytes);
  _tile_stored(2, to + 16 * kRows, kRowBytes);
  _tile_stored(3, to + 16 * kRows + 16, kRowBytes);
}
// sums += two tiles, one below the other, times two tiles side by side.
FK_AMX_INLINE void add_product(const std::byte* a0, const std::byte* a1, const std::byte* b0, const std::byte* b1,
                               int64_t b_stride) {
  _tile_loadd(6, b0, b_stride);
  _tile_loadd(7, b1, b_stride);
  _tile_stream_loadd(4, a0, 64);
  _tile_stream_loadd(5, a1, 64);
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

// The running maximum (of scores not yet multiplied with `factor`) and sum of weights of sixteen queries.
struct Lanes {
  __m512 largest, sum;
};

// Scores [keys][kRows] of sixteen queries become weights, rounded to bf16. Those of keys 2i and 2i+1 lie side by side
// where the score of key 2i was. The sums so far are to be multiplied by what is returned.
FK_AMX_INLINE __m512 weigh(float* scores, int64_t keys, float factor, Lanes& state) {
  __m512 largest = state.largest, other = largest;
#pragma GCC unroll 4
  for (int64_t j = 0; j < keys; j += 2) {
    largest = _mm512_max_ps(largest, _mm512_load_ps(scores + j * kRows));
    other = _mm512_max_ps(other, _mm512_load_ps(scores + (j + 1) * kRows));
  }
  largest = _mm512_max_ps(largest, other);
  __m512 scale = _mm512_set1_ps(factor);
  // A query that has seen no key yet has -infinity here; its weights are to be 0, not NaN.
  __mmask16 some = _mm512_cmp_ps_mask(largest, _mm512_set1_ps(-kInfinity), _CMP_NEQ_UQ);
  __m512 shift = _mm512_maskz_mul_ps(some, largest, scale);
  __m512 rescale = exp2_lanes(_mm512_fmsub_ps(state.largest, scale, shift));

  __m512 sum = _mm512_setzero_ps(), other_sum = sum;
#pragma GCC unroll 4
  for (int64_t j = 0; j < keys; j += 2) {
    float* at = scores + j * kRows;
    __m512 even = exp2_lanes(_mm512_fmsub_ps(_mm512_load_ps(at), scale, shift));
    __m512 odd = exp2_lanes(_mm512_fmsub_ps(_mm512_load_ps(at + kRows), scale, shift));
    sum = _mm512_add_ps(sum, even);
    other_sum = _mm512_add_ps(other_sum, odd);
    _mm512_store_si512(at, pair_up(even, odd));
  }
  state.sum = _mm512_fmadd_ps(state.sum, rescale, _mm512_add_ps(sum, other_sum));
  state.largest = largest;
  return rescale;
}

FK_AMX_INLINE bool all_ones(__m512 x) { return _mm512_cmp_ps_mask(x, _mm512_set1_ps(1.0f), _CMP_EQ_OQ) == 0xffff; }

FK_AMX_INLINE void rescale_sums(float* sums, int64_t columns, __m512 low, __m512 high) {
  for (int64_t d = 0; d < columns; ++d, sums += kRows) {
    _mm512_store_ps(sums, _mm512_mul_ps(_mm512_load_ps(sums), low));
    _mm512_store_ps(sums + 16, _mm512_mul_ps(_mm512_load_ps(sums + 16), high));
  }
}

// Sixteen columns of `sums`, times `factor`, become rows of an output in f32.
FK_AMX_INLINE void store_floats(const AttendTask& t, int64_t row, const float* sums, __m512 factor) {
  for (int64_t d = 0; d < t.value_size; d += 16) {
    __m512i r[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      r[i] = _mm512_castps_si512(_mm512_mul_ps(_mm512_load_ps(sums + (d + i) * kRows), factor));
    avx512::transpose16(r);
    __mmask16 mask = avx512::first16(t.value_size - d);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      if (row + i < t.rows)
        _mm512_mask_storeu_ps(static_cast<float*>(t.out[row + i]) + d, mask, _mm512_castsi512_ps(r[i]));
  }
}

// Sixteen columns of `sums` become rows of the output.
FK_AMX_INLINE void store_outputs(const AttendTask& t, int64_t row, const float* sums, __m512 weights) {
  __m512i first = _mm512_loadu_si512(t.first + row), last = _mm512_loadu_si512(t.last + row);
  __mmask16 sees = _mm512_cmplt_epi32_mask(first, last);  // a query without keys yields zero
  __m512 factor = _mm512_maskz_div_ps(sees, _mm512_set1_ps(1.0f), weights);
  if (t.float_out) return store_floats(t, row, sums, factor);
  for (int64_t d = 0; d < t.value_size; d += kTileColumns) {
    __m512i r[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const float* at = sums + (d + 2 * i) * kRows;
      r[i] = pair_up(_mm512_mul_ps(_mm512_load_ps(at), factor), _mm512_mul_ps(_mm512_load_ps(at + kRows), factor));
    }
    avx512::transpose16(r);
    __mmask32 mask = avx512::first32(t.value_size - d);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      if (row + i < t.rows) _mm512_mask_storeu_epi16(static_cast<uint16_t*>(t.out[row + i]) + d, mask, r[i]);
  }
}

// Blocks whose scores are kept at a time. After a tile product this CPU runs 512-bit arithmetic at half its rate for
// about 1500 cycles, so the two should alternate rarely; but the scores should stay in L1.
constexpr int64_t kBatch = 4;

size_t scratch_bytes(int64_t head_size, int64_t value_size) {
  return static_cast<size_t>(steps_of(head_size) * 2 * kTileBytes +
                             (kBatch * kKeysPerBlock + steps_of(value_size) * kTileColumns) * kRows * 4);
}

// The state of a tile of queries during the loop over the blocks of keys.
class Tile {
 public:
  explicit Tile(const AttendTask& task)
      : t_(task),
        steps_(steps_of(task.head_size)),
        value_steps_(steps_of(task.value_size)),
        columns_(value_steps_ * kTileColumns),
        key_bytes_(key_bytes(task.head_size)),
        block_bytes_(key_bytes_ + key_bytes(task.value_size)),
        q_(task.scratch),
        scores_(reinterpret_cast<float*>(q_ + steps_ * 2 * kTileBytes)),
        sums_(scores_ + kBatch * kKeysPerBlock * kRows),
        // With a soft cap the scale is applied there; otherwise in the exponent.
        finish_(task.rule.soft_cap > 0 || !(task.rule.scale > 0)),
        factor_(finish_ ? kLog2e : task.rule.scale * kLog2e),
        all_from_(*std::max_element(task.first, task.first + kRows)),
        all_to_(*std::min_element(task.last, task.last + kRows)) {}

  FK_AMX void run() {
    amx::use_whole_tiles();
    for (int64_t s = 0; s < steps_; ++s)
      for (int64_t half = 0; half < 2; ++half)
        amx::pack_pairs(t_.q + half * 16, 16, s * kTileColumns, t_.head_size, q_ + (s * 2 + half) * kTileBytes);
    Lanes low{_mm512_set1_ps(-kInfinity), _mm512_setzero_ps()}, high = low;
    for (int64_t b = t_.first_block; b < t_.last_block; b += kBatch) {
      const std::byte* blocks = t_.blocks + (b - t_.first_block) * block_bytes_;
      int64_t count = std::min(kBatch, t_.last_block - b);
      amx::memory_barrier();
      multiply_keys(blocks, count);
      amx::memory_barrier();
      finish_and_mask(b, count);
      __m512 rescale_low = weigh(scores_, count * kKeysPerBlock, factor_, low);
      __m512 rescale_high = weigh(scores_ + 16, count * kKeysPerBlock, factor_, high);
      bool first = b == t_.first_block;
      if (!first && !(all_ones(rescale_low) && all_ones(rescale_high)))
        rescale_sums(sums_, columns_, rescale_low, rescale_high);
      amx::memory_barrier();
      multiply_values(blocks, count, first);
      amx::memory_barrier();
    }
    _tile_release();
    if (t_.first_block == t_.last_block) std::fill_n(sums_, columns_ * kRows, 0.0f);
    store_outputs(t_, 0, sums_, low.sum);
    store_outputs(t_, 16, sums_ + 16, high.sum);
    if (t_.lse != nullptr) {
      store_lse(0, low);
      store_lse(16, high);
    }
  }

 private:
  FK_AMX_INLINE void multiply_keys(const std::byte* blocks, int64_t count) const {
    float* to = scores_;
    for (int64_t i = 0; i < count; ++i, blocks += block_bytes_) {
      const std::byte* keys = blocks;
      for (int64_t j = 0; j < kKeysPerBlock;
           j += 2 * kTileRows, to += 2 * kTileRows * kRows, keys += 2 * steps_ * kTileBytes) {
        zero_sums();
        for (int64_t s = 0; s < steps_; ++s) {
          const std::byte *a = keys + s * kTileBytes, *q = q_ + s * 2 * kTileBytes;
          add_product(a, a + steps_ * kTileBytes, q, q + kTileBytes, 64);
        }
        store_sums(to);
      }
    }
  }

  void finish_and_mask(int64_t b, int64_t count) const {
    if (finish_) finish_scores(scores_, count * kKeysPerBlock * kRows, t_.rule);
    for (int64_t i = 0; i < count; ++i) {
      int64_t key = (b + i) * kKeysPerBlock;
      if (key < all_from_ || key + kKeysPerBlock > all_to_)
        mask_scores(scores_ + i * kKeysPerBlock * kRows, kKeysPerBlock, kRows, key, t_.first, t_.last);
    }
  }

  FK_AMX_INLINE void store_lse(int64_t row, const Lanes& state) const {
    alignas(64) float largest[16], sum[16];
    _mm512_store_ps(largest, state.largest);
    _mm512_store_ps(sum, state.sum);
    for (int64_t i = 0; i < 16; ++i)
      t_.lse[row + i] = t_.first[row + i] < t_.last[row + i] ? largest[i] * (factor_ / kLog2e) + std::log(sum[i])
                                                             : -kInfinity;
  }

  FK_AMX_INLINE void multiply_values(const std::byte* blocks, int64_t count, bool first) const {
    for (int64_t s = 0; s < value_steps_; ++s) {
      float* to = sums_ + s * kTileColumns * kRows;
      if (first)
        zero_sums();
      else
        load_sums(to);
      const auto* weights = reinterpret_cast<const std::byte*>(scores_);
      for (int64_t i = 0; i < count; ++i) {
        const std::byte* values = blocks + i * block_bytes_ + key_bytes_ + s * 2 * kTileBytes;
        for (int64_t j = 0; j < kKeysPerBlock;
             j += kTileColumns, values += value_steps_ * 2 * kTileBytes, weights += kTileColumns * kRowBytes)
          add_product(values, values + kTileBytes, weights, weights + 64, 2 * kRowBytes);
      }
      store_sums(to);
    }
  }

  const AttendTask& t_;
  const int64_t steps_, value_steps_, columns_, key_bytes_, block_bytes_;
  std::byte* const q_;   // [step][2] tiles, pairs of elements by 16 queries
  float* const scores_;  // [kBatch * kKeysPerBlock][kRows]
  float* const sums_;    // [columns][kRows]
  const bool finish_;
  const float factor_;               // from scores to exponents of 2
  const int32_t all_from_, all_to_;  // between these every row sees every key
};

FK_AMX void attend(const AttendTask& task) { Tile(task).run(); }

}  // namespace

const PrefillKernel kPrefillAmxBf16{kRows, block_bytes, scratch_bytes, pack, attend};

}  // namespace fk
