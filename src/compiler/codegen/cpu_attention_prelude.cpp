#include "compiler/codegen/cpu_attention_prelude.h"

namespace fk {

const std::string_view kCpuAttention = R"(
#define FK_INLINE inline __attribute__((always_inline))

// As many floats as a register of this CPU has.
#if defined(__AVX512F__)
constexpr int kWidth = 16, kRegisters = 32;
#elif defined(__AVX__)
constexpr int kWidth = 8, kRegisters = 16;
#elif defined(__aarch64__)
constexpr int kWidth = 4, kRegisters = 32;
#else
constexpr int kWidth = 4, kRegisters = 16;
#endif
typedef float Floats __attribute__((vector_size(4 * kWidth)));
typedef float Four __attribute__((vector_size(16)));
typedef uint32_t Words __attribute__((vector_size(4 * kWidth)));
typedef float FloatsAt __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));
typedef uint16_t HalvesAt __attribute__((vector_size(2 * kWidth), aligned(2), may_alias));

constexpr int kSums = kRegisters / 2;  // that are added to at once
constexpr int kLanes = 2 * kWidth;     // rows that are multiplied at once
constexpr int kPanel = kSums / 2;      // keys, or elements of values, that they are multiplied with
constexpr int padded(int n, int to) { return (n + to - 1) / to * to; }

FK_INLINE Floats load(const float* from) { return *reinterpret_cast<const FloatsAt*>(from); }
#if defined(__aarch64__)
// GCC 12 converts halves of a vector one by one where no instruction is named.
FK_INLINE Floats load(const fk::bf16* from) {
  return (Floats)vshll_n_u16(vld1_u16(reinterpret_cast<const uint16_t*>(from)), 16);
}
FK_INLINE Floats load(const fk::f16* from) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const uint16_t*>(from))));
}
#else
FK_INLINE Words load_words(const void* from) {
  return __builtin_convertvector(*static_cast<const HalvesAt*>(from), Words);
}
FK_INLINE Floats load(const fk::bf16* from) { return (Floats)(load_words(from) << 16); }
FK_INLINE Floats load(const fk::f16* from) {
  // The exponent bias of a half is 112 below a float's; the product also converts subnormal numbers.
  const Words x = load_words(from), magnitude = x & 0x7fff;
  Words bits = (Words)((Floats)(magnitude << 13) * 5.192296858534827628530496329220096e33f);
  bits |= (Words)(magnitude >= 0x7c00) & 0x7f800000;
  return (Floats)(bits | (x & 0x8000) << 16);
}
#endif
FK_INLINE void store(float* to, Floats x) { *reinterpret_cast<FloatsAt*>(to) = x; }
// The first kCount elements, and zeros.
template <int kCount, class T>
FK_INLINE Floats load_first(const T* from) {
  if constexpr (kCount >= kWidth) return load(from);
  T all[kWidth] = {};
  for (int i = 0; i < kCount; ++i) all[i] = from[i];
  return load(all);
}
template <int kCount, class T>
FK_INLINE void widen(float* to, const T* from) {
  int i = 0;
  for (; i + kWidth <= kCount; i += kWidth) store(to + i, load(from + i));
  for (; i < kCount; ++i) to[i] = from[i];
}

FK_INLINE Four folded(Floats x) {
  Four parts[kWidth / 4];
  __builtin_memcpy(parts, &x, sizeof x);
  Four sum = parts[0];
  for (int i = 1; i < kWidth / 4; ++i) sum += parts[i];
  return sum;
}
FK_INLINE Four neighbours_added(Four a, Four b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
}
FK_INLINE Four sums_of(const Floats* x) {
  return neighbours_added(neighbours_added(folded(x[0]), folded(x[1])), neighbours_added(folded(x[2]), folded(x[3])));
}

// What a largest score is subtracted as: nothing was seen where it is -INFINITY.
FK_INLINE float shift_of(float top) { return top == -INFINITY ? 0.0f : top; }
// What a row's sum is multiplied with at the end, with a sink's score taken into account.
FK_INLINE float last_factor(float top, float total, float sink) {
  const float shift = shift_of(top > sink ? top : sink), own = exponential(top - shift);
  const float all = total * own + exponential(sink - shift);
  return all == 0 ? 0.0f : own / all;
}

// The keys that a row sees, [first, last), and where they are.
struct SeenKeys {
  int64_t first, last, source;
};
// Rows whose keys are read together. One row may have a part of its keys only; then what it found is kept.
struct AttentionItem {
  int64_t first_row, rows, first_key, last_key, kept;  // kept: -1: the item has all of the keys
};

// Few rows, which see the same keys: elements lie along a register.
template <class T, int kRows, int kQuery, int kValue>
struct FewRows {
  static constexpr int kKeys = 64;  // of a block
  static constexpr int kAtOnce = kRows == 1 ? 8 : kRows == 2 ? 4 : 2;  // keys
  static constexpr int kPaddedQuery = padded(kQuery, kWidth), kPaddedValue = padded(kValue, kWidth);
  static constexpr int kMostVectors = kSums / (kRows == 3 ? 4 : kRows);

  alignas(64) float q[kRows][kPaddedQuery];
  alignas(64) float mixed[kRows][kPaddedValue];
  alignas(64) float scores[kRows][kKeys];
  float top[kRows], total[kRows], before[kRows];
  const T* k[kKeys];
  const T* v[kKeys];

  template <int kCount>
  FK_INLINE void multiply(int j) {
    Floats sums[padded(kRows * kCount, 4)] = {};
#pragma GCC unroll 1
    for (int d = 0; d + kWidth <= kQuery; d += kWidth) add_products<kCount, kWidth>(sums, j, d);
    if constexpr (kQuery % kWidth != 0) add_products<kCount, kQuery % kWidth>(sums, j, kQuery / kWidth * kWidth);
    for (int s = 0; s < kRows * kCount; s += 4) {
      const Four all = sums_of(sums + s);
      for (int i = 0; i < 4 && s + i < kRows * kCount; ++i) scores[(s + i) % kRows][j + (s + i) / kRows] = all[i];
    }
  }
  template <int kCount, int kElements>
  FK_INLINE void add_products(Floats* sums, int j, int d) {
    Floats key[kCount];
#pragma GCC unroll 8
    for (int n = 0; n < kCount; ++n) key[n] = load_first<kElements>(k[j + n] + d);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const Floats query = load(&q[r][d]);
#pragma GCC unroll 8
      for (int n = 0; n < kCount; ++n) sums[n * kRows + r] += key[n] * query;
    }
  }

  // Scores become weights.
  template <class Score>
  FK_INLINE void weigh(int count, const Score& score) {
    const int whole = padded(count, 16);
    for (int r = 0; r < kRows; ++r) {
      float* const s = scores[r];
      for (int j = count; j < whole; ++j) s[j] = 0;
#pragma omp simd
      for (int j = 0; j < whole; ++j) s[j] = score(s[j]);
      for (int j = count; j < whole; ++j) s[j] = -INFINITY;
      Floats most = load(s);
      for (int j = kWidth; j < whole; j += kWidth) {
        const Floats next = load(s + j);
        most = next > most ? next : most;
      }
      float next = top[r];
      for (int l = 0; l < kWidth; ++l) next = most[l] > next ? most[l] : next;
      const float shift = shift_of(next);
      before[r] = exponential(top[r] - shift);
      top[r] = next;
#pragma omp simd
      for (int j = 0; j < whole; ++j) s[j] = exponential(s[j] - shift);
      Floats sum = {};
      for (int j = 0; j < whole; j += kWidth) sum += load(s + j);
      const Four four = folded(sum);
      total[r] = total[r] * before[r] + ((four[0] + four[1]) + (four[2] + four[3]));
    }
  }

  // kCount elements of values from d on, of all rows.
  template <int kCount>
  FK_INLINE void mix(int count, int d) {
    constexpr int kVectors = padded(kCount, kWidth) / kWidth;
    Floats sums[kRows][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
      for (int n = 0; n < kVectors; ++n) sums[r][n] = load(&mixed[r][d + n * kWidth]) * before[r];
#pragma GCC unroll 1
    for (int j = 0; j < count; ++j) {
      Floats value[kVectors];
#pragma GCC unroll 16
      for (int n = 0; n + 1 < kVectors; ++n) value[n] = load(v[j] + d + n * kWidth);
      value[kVectors - 1] = load_first<kCount - (kVectors - 1) * kWidth>(v[j] + d + (kVectors - 1) * kWidth);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
        for (int n = 0; n < kVectors; ++n) sums[r][n] += scores[r][j] * value[n];
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
      for (int n = 0; n < kVectors; ++n) store(&mixed[r][d + n * kWidth], sums[r][n]);
  }

  template <class KRow, class VRow, class Score>
  void run(int64_t first, int64_t last, KRow k_row, VRow v_row, const Score& score) {
    for (int r = 0; r < kRows; ++r) {
      for (int d = 0; d < kPaddedValue; ++d) mixed[r][d] = 0;
      top[r] = -INFINITY, total[r] = 0;
    }
    constexpr int kAhead = 8;  // keys of one head lie far apart, which processors do not expect
    constexpr int kLine = 64 / static_cast<int>(sizeof(T));
    for (int64_t base = first; base < last; base += kKeys) {
      const int count = static_cast<int>(last - base < kKeys ? last - base : kKeys);
      for (int j = 0; j < count; ++j) k[j] = k_row(base + j), v[j] = v_row(base + j);
      int j = 0;
      for (; j + kAtOnce <= count; j += kAtOnce) {
        for (int n = j; n < j + kAtOnce; ++n) {
          if (n + kAhead < count)
            for (int d = 0; d < kQuery; d += kLine) __builtin_prefetch(k[n + kAhead] + d);
          for (int d = 0; d < kValue; d += kLine) __builtin_prefetch(v[n] + d);
        }
        multiply<kAtOnce>(j);
      }
      for (; j < count; ++j) multiply<1>(j);
      weigh(count, score);
      constexpr int kStep = kMostVectors * kWidth, kWhole = kValue / kStep * kStep;
#pragma GCC unroll 1
      for (int d = 0; d < kWhole; d += kStep) mix<kStep>(count, d);
      if constexpr (kWhole < kValue) mix<kValue - kWhole>(count, kWhole);
    }
  }
};

// Many rows: they lie along registers, kLanes of them at a time. Keys and values of a block are read once for all.
template <class T, int kTile, int kQuery, int kValue>
struct ManyRows {
  static constexpr int kBlocks = kTile / kLanes;
  static constexpr int kLonger = kQuery > kValue ? kQuery : kValue;
  static constexpr int kKeys = kLonger <= 64 ? 64 : kLonger <= 128 ? 32 : 16;
  static constexpr int kPaddedValue = padded(kValue, kPanel);

  alignas(64) float q[kBlocks][kQuery][kLanes];
  alignas(64) float mixed[kBlocks][kPaddedValue][kLanes];
  alignas(64) float weights[kKeys][kLanes];
  alignas(64) float keys[kKeys][kQuery];
  alignas(64) float values[kKeys][kPaddedValue];
  alignas(64) float top[kBlocks][kLanes], total[kBlocks][kLanes], before[kLanes];
  // Of rows, counted from the tile's first key: so they fit 32 bits.
  alignas(64) int32_t first[kBlocks][kLanes], last[kBlocks][kLanes];

  // sums += panel of kPanel numbers, kApart apart, times a row of lanes; `steps` times.
  template <int kApart, int kStep>
  static FK_INLINE void multiply(Floats (&sums)[kPanel][2], const float* panel, const float* lanes, int steps) {
    for (int i = 0; i < steps; ++i) {
      const Floats a = load(lanes), b = load(lanes + kWidth);
#pragma GCC unroll 8
      for (int u = 0; u < kPanel; ++u) {
        sums[u][0] += panel[u * kApart] * a;
        sums[u][1] += panel[u * kApart] * b;
      }
      panel += kStep, lanes += kLanes;
    }
  }

  // Scores of a block of keys with the rows of block b become weights. `at` is its first key, counted as `first` is.
  template <class Score>
  FK_INLINE void weigh(int b, int whole, int32_t at, bool masked, const Score& score) {
    for (int j = 0; j < whole; j += kPanel) {
      Floats sums[kPanel][2] = {};
      multiply<kQuery, 1>(sums, keys[j], q[b][0], kQuery);
#pragma GCC unroll 8
      for (int u = 0; u < kPanel; ++u) store(weights[j + u], sums[u][0]), store(weights[j + u] + kWidth, sums[u][1]);
    }
    for (int j = 0; j < whole; ++j)
#pragma omp simd
      for (int l = 0; l < kLanes; ++l) weights[j][l] = score(weights[j][l]);
    if (masked)
      for (int j = 0; j < whole; ++j)
#pragma omp simd
        for (int l = 0; l < kLanes; ++l)
          weights[j][l] = (at + j >= first[b][l]) & (at + j < last[b][l]) ? weights[j][l] : -INFINITY;
    Floats most[2] = {load(top[b]), load(top[b] + kWidth)};
    for (int j = 0; j < whole; ++j)
      for (int n = 0; n < 2; ++n) {
        const Floats next = load(weights[j] + n * kWidth);
        most[n] = next > most[n] ? next : most[n];
      }
    alignas(64) float shift[kLanes], sum[kLanes] = {};
    store(shift, most[0]), store(shift + kWidth, most[1]);
#pragma omp simd
    for (int l = 0; l < kLanes; ++l) {
      const float largest = shift[l];
      shift[l] = shift_of(largest);
      before[l] = exponential(top[b][l] - shift[l]);
      top[b][l] = largest;
    }
    for (int j = 0; j < whole; ++j)
#pragma omp simd
      for (int l = 0; l < kLanes; ++l) {
        weights[j][l] = exponential(weights[j][l] - shift[l]);
        sum[l] += weights[j][l];
      }
#pragma omp simd
    for (int l = 0; l < kLanes; ++l) total[b][l] = total[b][l] * before[l] + sum[l];
  }

  FK_INLINE void mix(int b, int whole) {
    for (int d = 0; d < kPaddedValue; d += kPanel) {
      Floats sums[kPanel][2];
      const Floats low = load(before), high = load(before + kWidth);
#pragma GCC unroll 8
      for (int u = 0; u < kPanel; ++u)
        sums[u][0] = load(mixed[b][d + u]) * low, sums[u][1] = load(mixed[b][d + u] + kWidth) * high;
      multiply<1, kPaddedValue>(sums, &values[0][d], weights[0], whole);
#pragma GCC unroll 8
      for (int u = 0; u < kPanel; ++u)
        store(mixed[b][d + u], sums[u][0]), store(mixed[b][d + u] + kWidth, sums[u][1]);
    }
  }

  // The same where a value is no number or infinite: rows that do not see it must not multiply it by 0.
  void mix_seen(int b, int whole, int32_t at) {
    for (int d = 0; d < kPaddedValue; ++d)
      for (int l = 0; l < kLanes; ++l) {
        float sum = mixed[b][d][l] * before[l];
        for (int j = 0; j < whole; ++j)
          if (at + j >= first[b][l] && at + j < last[b][l]) sum += weights[j][l] * values[j][d];
        mixed[b][d][l] = sum;
      }
  }

  bool values_are_finite(int count) const {
    float none = 0;  // a NaN if one is not
    for (int j = 0; j < count; ++j)
#pragma omp simd reduction(+ : none)
      for (int d = 0; d < kPaddedValue; ++d) none += values[j][d] * 0.0f;
    return none == 0;
  }

  // Rows [0, rows); those behind repeat the last one.
  template <class QRow, class Seen, class KRow, class VRow, class Score>
  void run(int rows, int64_t begin, int64_t end, const QRow& q_row, const Seen& seen, const KRow& k_row,
           const VRow& v_row, const Score& score) {
    const int blocks = (rows + kLanes - 1) / kLanes;
    for (int b = 0; b < blocks; ++b)
      for (int l = 0; l < kLanes; ++l) {
        const int r = b * kLanes + l < rows ? b * kLanes + l : rows - 1;
        const T* const from = q_row(r);
        for (int d = 0; d < kQuery; ++d) q[b][d][l] = from[d];
        const SeenKeys mine = seen(r);
        first[b][l] = static_cast<int32_t>(mine.first - begin);
        last[b][l] = static_cast<int32_t>(mine.last - begin);
        top[b][l] = -INFINITY, total[b][l] = 0;
        for (int d = 0; d < kPaddedValue; ++d) mixed[b][d][l] = 0;
      }
    for (int64_t base = begin; base < end; base += kKeys) {
      const int count = static_cast<int>(end - base < kKeys ? end - base : kKeys), whole = padded(count, kPanel);
      const auto at = static_cast<int32_t>(base - begin);
      for (int j = 0; j < count; ++j) widen<kQuery>(keys[j], k_row(base + j));
      for (int j = count; j < whole; ++j)
        for (int d = 0; d < kQuery; ++d) keys[j][d] = 0;
      bool has_values = false, is_checked = false, finite = true;
      for (int b = 0; b < blocks; ++b) {
        // Whether some rows see some of these keys, and whether all rows see all.
        bool some = false, all = true;
        for (int l = 0; l < kLanes; ++l) {
          some = some || (first[b][l] < at + count && last[b][l] > at);
          all = all && first[b][l] <= at && last[b][l] >= at + whole;
        }
        if (!some) continue;
        weigh(b, whole, at, !all, score);
        if (!has_values) {
          for (int j = 0; j < whole; ++j) {
            if (j < count) widen<kValue>(values[j], v_row(base + j));
            for (int d = j < count ? kValue : 0; d < kPaddedValue; ++d) values[j][d] = 0;
          }
          has_values = true;
        }
        if (!all && !is_checked) finite = values_are_finite(count), is_checked = true;
        if (all || finite)
          mix(b, whole);
        else
          mix_seen(b, whole, at);
      }
    }
  }
};

// Functions of a kernel: where rows are, what a score is, and what is done with a result.
template <class T, int kHeads_, int kGroup_, int kQuery_, int kValue_, class QRow, class KRow, class VRow, class Score,
          class Sink>
struct AttentionCall {
  static constexpr int kHeads = kHeads_, kGroup = kGroup_, kQuery = kQuery_, kValue = kValue_;
  static constexpr int kLonger = kQuery > kValue ? kQuery : kValue;
  static constexpr int kTile = padded(kLonger > 256 ? 16 : 32, kLanes);  // rows
  static constexpr int64_t kKept = kGroup * (kValue + 2);                // floats of an item that is kept

  T* out;
  const SeenKeys* seen;
  float* kept;
  QRow q_row;
  KRow k_row;
  VRow v_row;
  Score score;
  Sink sink_of;

  FK_INLINE T* out_row(int64_t row, int head, int g) const {
    return out + ((row * kHeads + head) * kGroup + g) * kValue;
  }

  // Rows of keys or values. A copy: what it needs stays in registers, whatever is stored between two calls.
  template <class Row>
  static FK_INLINE auto places(const Row& row, int64_t source, int64_t head) {
    return [=](int64_t key) {
      if (key < 0) __builtin_unreachable();  // so that a page is found by a shift
      return row(source, head, key);
    };
  }

  // Heads [g, g + kRows) of one row.
  template <int kRows>
  void few(int64_t row, int64_t first, int64_t last, int head, int g, float* keep) const {
    FewRows<T, kRows, kQuery, kValue> few;
    for (int r = 0; r < kRows; ++r) {
      const T* const from = q_row(row, head, g + r);
      for (int d = 0; d < few.kPaddedQuery; ++d) few.q[r][d] = d < kQuery ? static_cast<float>(from[d]) : 0.0f;
    }
    few.run(first, last, places(k_row, seen[row].source, head), places(v_row, seen[row].source, head), score);
    for (int r = 0; r < kRows; ++r) {
      if (keep != nullptr) {
        float* const to = keep + (g + r) * (kValue + 2);
        for (int d = 0; d < kValue; ++d) to[d] = few.mixed[r][d];
        to[kValue] = few.top[r], to[kValue + 1] = few.total[r];
        continue;
      }
      const float factor = last_factor(few.top[r], few.total[r], sink_of(head, g + r));
      T* const to = out_row(row, head, g + r);
      for (int d = 0; d < kValue; ++d) to[d] = few.mixed[r][d] * factor;
    }
  }
  void one_row(int64_t row, int64_t first, int64_t last, int head, float* keep) const {
    int g = 0;
    for (; g + 4 <= kGroup; g += 4) few<4>(row, first, last, head, g, keep);
    if constexpr (kGroup % 4 != 0) few<kGroup % 4>(row, first, last, head, g, keep);
  }

  void attend(const AttentionItem& item, int head) const {
    float* const keep = item.kept < 0 ? nullptr : kept + (item.kept * kHeads + head) * kKept;
    if (item.rows == 1) return one_row(item.first_row, item.first_key, item.last_key, head, keep);
    const int rows = static_cast<int>(item.rows) * kGroup;
    if (rows < kLanes) {
      for (int64_t row = item.first_row; row < item.first_row + item.rows; ++row)
        one_row(row, seen[row].first, seen[row].last, head, nullptr);
      return;
    }
    ManyRows<T, kTile, kQuery, kValue> many;
    const int64_t source = seen[item.first_row].source;
    many.run(
        rows, item.first_key, item.last_key,
        [&](int r) { return q_row(item.first_row + r / kGroup, head, r % kGroup); },
        [&](int r) { return seen[item.first_row + r / kGroup]; }, places(k_row, source, head),
        places(v_row, source, head), score);
    for (int r = 0; r < rows; ++r) {
      const int b = r / kLanes, l = r % kLanes;
      const float factor = last_factor(many.top[b][l], many.total[b][l], sink_of(head, r % kGroup));
      T* const to = out_row(item.first_row + r / kGroup, head, r % kGroup);
      for (int d = 0; d < kValue; ++d) to[d] = many.mixed[b][d][l] * factor;
    }
  }

  // What several items found of one row: item.first_key and last_key are the first and the end of what they have kept.
  void join(const AttentionItem& item, int head) const {
    for (int g = 0; g < kGroup; ++g) {
      auto part = [&](int64_t n) { return kept + (n * kHeads + head) * kKept + g * (kValue + 2); };
      float top = -INFINITY, total = 0, mixed[kValue] = {};
      for (int64_t n = item.first_key; n < item.last_key; ++n) top = part(n)[kValue] > top ? part(n)[kValue] : top;
      for (int64_t n = item.first_key; n < item.last_key; ++n) {
        const float* const from = part(n);
        const float factor = exponential(from[kValue] - shift_of(top));
        total += from[kValue + 1] * factor;
        for (int d = 0; d < kValue; ++d) mixed[d] += from[d] * factor;
      }
      const float factor = last_factor(top, total, sink_of(head, g));
      T* const to = out_row(item.first_row, head, g);
      for (int d = 0; d < kValue; ++d) to[d] = mixed[d] * factor;
    }
  }
};
)";

}  // namespace fk
