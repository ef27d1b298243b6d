// The prefill kernel with AMX tiles. Both products are computed transposed, so that a query is a lane of a vector from the
// scores to the output: S^T [key][query] = K Q^T, then O^T [Dh][query] += V^T P^T. The softmax needs no sums across a
// vector, and weights in pairs of keys are already what a tile product wants as its second operand.
//
// Weights are rounded to bf16 before they meet the values; their sum is taken before that, in f32.
#include <algorithm>

#include "backend/cpu/attention/amx_tiles.x86.h"
#include "backend/cpu/attention/prefill.h"

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

// A block: keys [kKeysPerBlock / 16][step] tiles of 16 keys by 32 elements; values [kKeysPerBlock / 32][step][2] tiles of
// 16 elements by 32 keys.
size_t block_bytes(int64_t head_size) { return static_cast<size_t>(2 * kKeysPerBlock * steps_of(head_size) * kTileColumns * 2); }
int64_t key_bytes(int64_t head_size) { return static_cast<int64_t>(block_bytes(head_size)) / 2; }

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

// Element d of keys 2i and 2i+1 side by side, then sixteen such pairs and sixteen elements change places.
FK_AMX void pack_values(const PackBlockTask& t) {
  std::byte* tile = t.block + key_bytes(t.head_size);
  for (int64_t key = 0; key < kKeysPerBlock; key += kTileColumns)
    for (int64_t d = 0; d < steps_of(t.head_size) * kTileColumns; d += kTileRows, tile += kTileBytes) {
      __mmask16 mask = t.head_size > d ? avx512::first16(t.head_size - d) : 0;
      __m512i r[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        int64_t even = key + 2 * i, odd = even + 1;
        __m256i low = even < t.keys ? _mm256_maskz_loadu_epi16(mask, static_cast<const uint16_t*>(t.v[even]) + d) : _mm256_setzero_si256();
        __m256i high = odd < t.keys ? _mm256_maskz_loadu_epi16(mask, static_cast<const uint16_t*>(t.v[odd]) + d) : _mm256_setzero_si256();
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

// 2^x for x <= 0 within 3e-6, far below the rounding of weights to bf16: 2^floor(x) times a polynomial in the rest, fitted
// for the least largest relative error. -infinity yields 0, a NaN stays one.
FK_AMX_INLINE __m512 exp2_lanes(__m512 x) {
  __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  __m512 p = _mm512_set1_ps(1.35341678e-2f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.20114601e-2f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.41442755e-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.93003833e-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.00000262f));
  return _mm512_scalef_ps(p, x);
}

// Where the parts of a tile's work lie in the thread's scratch memory.
struct Scratch {
  std::byte* q;      // [step][2] tiles, pairs of elements by 16 queries
  float* scores;     // [kKeysPerBlock][kRows]
  std::byte* pairs;  // weights, [kKeysPerBlock / 32][2] tiles, pairs of keys by 16 queries
  float* sums;       // [Dh in whole steps][kRows]

  Scratch(std::byte* at, int64_t steps)
      : q(at), scores(reinterpret_cast<float*>(q + steps * 2 * kTileBytes)), pairs(q + steps * 2 * kTileBytes + kKeysPerBlock * kRows * 4),
        sums(reinterpret_cast<float*>(pairs + kKeysPerBlock * kRows * 2)) {}
};

size_t scratch_bytes(int64_t head_size) {
  int64_t steps = steps_of(head_size);
  return static_cast<size_t>(steps * 2 * kTileBytes + kKeysPerBlock * kRows * 6 + steps * kTileColumns * kRows * 4);
}

constexpr int64_t kRowBytes = kRows * 4;

// to[32][kRows] (+)= the product of two rows of tiles a, `a_next` bytes apart, with b [steps][2], over all steps.
FK_AMX_INLINE void multiply(const std::byte* a, int64_t a_next, int64_t a_step, const std::byte* b, int64_t steps, float* to, bool add) {
  if (add) {
    _tile_loadd(0, to, kRowBytes);
    _tile_loadd(1, to + 16, kRowBytes);
    _tile_loadd(2, to + 16 * kRows, kRowBytes);
    _tile_loadd(3, to + 16 * kRows + 16, kRowBytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t s = 0; s < steps; ++s, a += a_step, b += 2 * kTileBytes) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_loadd(7, b + kTileBytes, 64);
    _tile_loadd(5, a + a_next, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, to, kRowBytes);
  _tile_stored(1, to + 16, kRowBytes);
  _tile_stored(2, to + 16 * kRows, kRowBytes);
  _tile_stored(3, to + 16 * kRows + 16, kRowBytes);
}

// The running maximum (of scores not yet multiplied with `factor`) and sum of weights of sixteen queries.
struct Lanes {
  __m512 largest, sum;
};

// Scores of sixteen queries become pairs of weights; the sums so far are multiplied by what is returned.
FK_AMX_INLINE __m512 weigh(const float* scores, float factor, Lanes& state, std::byte* pairs) {
  __m512 largest = state.largest, other = largest;
#pragma GCC unroll 8
  for (int64_t j = 0; j < kKeysPerBlock; j += 2) {
    largest = _mm512_max_ps(largest, _mm512_load_ps(scores + j * kRows));
    other = _mm512_max_ps(other, _mm512_load_ps(scores + (j + 1) * kRows));
  }
  largest = _mm512_max_ps(largest, other);
  __m512 scale = _mm512_set1_ps(factor);
  // A query that has seen no key yet has -infinity here; its weights are to be 0, not NaN.
  __mmask16 none = _mm512_cmp_ps_mask(largest, _mm512_set1_ps(-kInfinity), _CMP_EQ_OQ);
  __m512 shift = _mm512_maskz_mul_ps(static_cast<__mmask16>(~none), largest, scale);
  __m512 rescale = exp2_lanes(_mm512_fmsub_ps(state.largest, scale, shift));

  // Words of two vectors of sixteen side by side.
  const __m512i interleave = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4,
                                              19, 3, 18, 2, 17, 1, 16, 0);
  __m512 sum = _mm512_setzero_ps(), other_sum = sum;
#pragma GCC unroll 4
  for (int64_t j = 0; j < kKeysPerBlock; j += 2) {
    __m512 even = exp2_lanes(_mm512_fmsub_ps(_mm512_load_ps(scores + j * kRows), scale, shift));
    __m512 odd = exp2_lanes(_mm512_fmsub_ps(_mm512_load_ps(scores + (j + 1) * kRows), scale, shift));
    sum = _mm512_add_ps(sum, even);
    other_sum = _mm512_add_ps(other_sum, odd);
    auto both = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
    std::byte* tile = pairs + j / kTileColumns * 2 * kTileBytes;
    _mm512_store_si512(tile + j % kTileColumns * 32, _mm512_permutexvar_epi16(interleave, both));
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

// Sixteen columns of `sums` become rows of the output.
FK_AMX_INLINE void store_outputs(const AttendTask& t, int64_t row, const float* sums, __m512 weights) {
  __m512i first = _mm512_loadu_si512(t.first + row), last = _mm512_loadu_si512(t.last + row);
  __mmask16 sees = _mm512_cmplt_epi32_mask(first, last);  // a query without keys yields zero
  __m512 factor = _mm512_maskz_div_ps(sees, _mm512_set1_ps(1.0f), weights);
  for (int64_t d = 0; d < t.head_size; d += 16) {
    __m512i r[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) r[i] = _mm512_castps_si512(_mm512_mul_ps(_mm512_load_ps(sums + (d + i) * kRows), factor));
    avx512::transpose16(r);
    __mmask16 mask = avx512::first16(t.head_size - d);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      if (row + i < t.rows)
        _mm256_mask_storeu_epi16(static_cast<uint16_t*>(t.out[row + i]) + d, mask, avx512::round_to_bf16(_mm512_castsi512_ps(r[i])));
  }
}

FK_AMX void attend(const AttendTask& t) {
  int64_t steps = steps_of(t.head_size), columns = steps * kTileColumns;
  Scratch scratch(t.scratch, steps);
  amx::use_whole_tiles();
  for (int64_t s = 0; s < steps; ++s)
    for (int64_t half = 0; half < 2; ++half)
      amx::pack_pairs(t.q + half * 16, s * kTileColumns, t.head_size, scratch.q + (s * 2 + half) * kTileBytes);

  // Where scores need a function of their own, the scale is part of it; else it goes into the exponent.
  bool finish = t.rule.soft_cap > 0 || !(t.rule.scale > 0);
  float factor = finish ? kLog2e : t.rule.scale * kLog2e;
  // Between these every row sees every key.
  int32_t all_from = *std::max_element(t.first, t.first + kRows), all_to = *std::min_element(t.last, t.last + kRows);
  Lanes low{_mm512_set1_ps(-kInfinity), _mm512_setzero_ps()}, high = low;
  const std::byte* block = t.blocks;
  for (int64_t b = t.first_block; b < t.last_block; ++b, block += block_bytes(t.head_size)) {
    amx::memory_barrier();
    for (int64_t j = 0; j < kKeysPerBlock; j += 2 * kTileRows)
      multiply(block + j / kTileRows * steps * kTileBytes, steps * kTileBytes, kTileBytes, scratch.q, steps, scratch.scores + j * kRows, false);
    amx::memory_barrier();

    int64_t key = b * kKeysPerBlock;
    if (finish) finish_scores(scratch.scores, kKeysPerBlock * kRows, t.rule);
    if (key < all_from || key + kKeysPerBlock > all_to) mask_scores(scratch.scores, kKeysPerBlock, kRows, key, t.first, t.last);
    __m512 rescale_low = weigh(scratch.scores, factor, low, scratch.pairs);
    __m512 rescale_high = weigh(scratch.scores + 16, factor, high, scratch.pairs + kTileBytes);
    bool first = b == t.first_block;
    if (!first && !(all_ones(rescale_low) && all_ones(rescale_high))) rescale_sums(scratch.sums, columns, rescale_low, rescale_high);

    amx::memory_barrier();
    const std::byte* values = block + key_bytes(t.head_size);
    for (int64_t s = 0; s < steps; ++s)
      multiply(values + s * 2 * kTileBytes, kTileBytes, steps * 2 * kTileBytes, scratch.pairs, kKeysPerBlock / kTileColumns,
               scratch.sums + s * kTileColumns * kRows, !first);
    amx::memory_barrier();
  }
  _tile_release();
  if (t.first_block == t.last_block) std::fill_n(scratch.sums, columns * kRows, 0.0f);
  store_outputs(t, 0, scratch.sums, low.sum);
  store_outputs(t, 16, scratch.sums + 16, high.sum);
}

}  // namespace

const PrefillKernel kPrefillAmxBf16{kRows, block_bytes, scratch_bytes, pack, attend};

}  // namespace fk
