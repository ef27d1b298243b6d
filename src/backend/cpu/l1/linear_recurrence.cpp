// Linear attention and delta rules on CPU, token by token in f32.
//
// Columns of a state never meet, so prefill works on 64 of them at a time for a few tokens: what the tokens need is
// converted once, and the columns stay in registers (or, with a delta rule, in L1). Decoding reads every state once,
// row by row.
#include "ops/l1/linear_recurrence.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/for_items.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/vector_math.h"
#include "ops/l1/chunk_gated_delta_rule.h"
#include "ops/l1/chunk_gla.h"
#include "ops/l1/chunk_kda.h"
#include "ops/l1/chunk_retention.h"
#include "ops/l1/chunk_rwkv7.h"
#include "ops/l1/fused_recurrent_gated_delta_rule.h"
#include "ops/l1/fused_recurrent_gla.h"
#include "ops/l1/fused_recurrent_kda.h"
#include "ops/l1/fused_recurrent_retention.h"
#include "ops/l1/fused_recurrent_rwkv7.h"
#include "ops/register.h"

namespace fk {
namespace {

constexpr int64_t kColumns = 64;       // of a tile
constexpr int64_t kTokensAtOnce = 32;  // of a prefill

template <class T>
FK_INLINE void widen(const T* from, float factor, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = factor * load(from[i]);
}
FK_SIMD_CLONES void widen_bf16(const bf16* from, float factor, float* to, int64_t n) { widen(from, factor, to, n); }
FK_SIMD_CLONES void widen_f16(const f16* from, float factor, float* to, int64_t n) { widen(from, factor, to, n); }
FK_SIMD_CLONES void widen_f32(const float* from, float factor, float* to, int64_t n) { widen(from, factor, to, n); }

template <class T>
FK_INLINE void narrow_to(const float* from, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) store(to[i], from[i]);
}
FK_SIMD_CLONES void narrow_bf16(const float* from, bf16* to, int64_t n) { narrow_to(from, to, n); }
FK_SIMD_CLONES void narrow_f16(const float* from, f16* to, int64_t n) { narrow_to(from, to, n); }

FK_SIMD_CLONES void exponentials(const float* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = vexp(from[i]);
}
FK_SIMD_CLONES void products(const float* a, const float* b, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = a[i] * b[i];
}
FK_SIMD_CLONES void times(const float* a, float factor, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = a[i] * factor;
}

// Row (t, head) of a tensor of bf16, f16 or f32, times a factor.
void widen_row(const View& x, int64_t t, int64_t head, float factor, float* to) {
  const int64_t at = t * x.stride(0) + head * x.stride(1), n = x.size(2);
  if (x.dtype() == DType::kBF16)
    widen_bf16(x.ptr<bf16>() + at, factor, to, n);
  else if (x.dtype() == DType::kF16)
    widen_f16(x.ptr<f16>() + at, factor, to, n);
  else
    widen_f32(x.ptr<float>() + at, factor, to, n);
}

void narrow_row(const View& out, int64_t t, int64_t head, int64_t first, int64_t n, const float* from) {
  const int64_t at = t * out.stride(0) + head * out.stride(1) + first;
  if (out.dtype() == DType::kBF16)
    narrow_bf16(from, out.ptr<bf16>() + at, n);
  else if (out.dtype() == DType::kF16)
    narrow_f16(from, out.ptr<f16>() + at, n);
  else
    std::memcpy(out.ptr<float>() + at, from, static_cast<size_t>(n) * sizeof(float));
}

// What tokens of one head need, each row K floats: the equation of ops/l1/linear_recurrence.h.
struct TokenRows {
  float *q, *k, *decay, *a, *b;
  int64_t K;

  TokenRows(float* scratch, int64_t tokens, int64_t keys)
      : q(scratch),
        k(q + tokens * keys),
        decay(k + tokens * keys),
        a(decay + tokens * keys),
        b(a + tokens * keys),
        K(keys) {}
  static int64_t floats(int64_t tokens, int64_t keys) { return 5 * tokens * keys; }

  // Token t of the call becomes row i.
  void set(const LinearRecurrence& c, int64_t t, int64_t h, int64_t i) const {
    float *q_row = q + i * K, *k_row = k + i * K, *d = decay + i * K, *a_row = a + i * K, *b_row = b + i * K;
    widen_row(c.q, t, c.head_of(c.q, h), static_cast<float>(c.scale), q_row);
    widen_row(c.k, t, c.head_of(c.k, h), 1, k_row);
    if (!c.g) {
      std::fill_n(d, K, static_cast<float>(c.retention_decay(h)));
    } else if (c.g->rank() == 3) {
      exponentials(c.g->ptr<float>() + t * c.g->stride(0) + c.head_of(*c.g, h) * c.g->stride(1), d, K);
    } else {
      std::fill_n(d, K, vexp(c.g->ptr<float>()[t * c.g->stride(0) + c.head_of(*c.g, h)]));
    }
    if (c.a) {
      widen_row(*c.a, t, c.head_of(*c.a, h), 1, a_row);
      widen_row(*c.b, t, c.head_of(*c.b, h), 1, b_row);
    } else if (c.beta) {
      const float beta = c.beta->ptr<float>()[t * c.beta->stride(0) + c.head_of(*c.beta, h)];
      products(d, k_row, a_row, K);
      times(k_row, -beta, b_row, K);
      times(k_row, beta, k_row, K);
    }
  }
};

using Lanes = float __attribute__((vector_size(64), aligned(4), may_alias));
constexpr int64_t kLanes = 16, kParts = kColumns / kLanes;

// Rows i .. i + R - 1 of a tile through all tokens, in registers.
template <int R>
FK_INLINE void decay_rows(const TokenRows& x, int64_t i, int64_t tokens, const float* v, float* o, float* S) {
  Lanes s[R][kParts];
  for (int r = 0; r < R; ++r)
    for (int p = 0; p < kParts; ++p) s[r][p] = *reinterpret_cast<const Lanes*>(S + (i + r) * kColumns + p * kLanes);
  for (int64_t t = 0; t < tokens; ++t) {
    const float *q = x.q + t * x.K + i, *k = x.k + t * x.K + i, *d = x.decay + t * x.K + i;
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) {
      const Lanes value = *reinterpret_cast<const Lanes*>(v + t * kColumns + p * kLanes);
      auto* at = reinterpret_cast<Lanes*>(o + t * kColumns + p * kLanes);
      Lanes sum = *at;
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        s[r][p] = d[r] * s[r][p] + k[r] * value;
        sum += q[r] * s[r][p];
      }
      *at = sum;
    }
  }
  for (int r = 0; r < R; ++r)
    for (int p = 0; p < kParts; ++p) *reinterpret_cast<Lanes*>(S + (i + r) * kColumns + p * kLanes) = s[r][p];
}

FK_SIMD_CLONES void decay_tile(const TokenRows& x, int64_t tokens, const float* v, float* o, float* S) {
  int64_t i = 0;
  for (; i + 4 <= x.K; i += 4) decay_rows<4>(x, i, tokens, v, o, S);
  for (; i < x.K; ++i) decay_rows<1>(x, i, tokens, v, o, S);
}

// With a delta rule. The pass that updates the state for a token also takes a^T S for the next one.
FK_SIMD_CLONES void delta_tile(const TokenRows& x, int64_t tokens, const float* v, float* o, float* S) {
  Lanes removed[kParts] = {};
  for (int64_t i = 0; i < x.K; ++i)
    for (int p = 0; p < kParts; ++p)
      removed[p] += x.a[i] * *reinterpret_cast<const Lanes*>(S + i * kColumns + p * kLanes);
  for (int64_t t = 0; t < tokens; ++t) {
    const float *q = x.q + t * x.K, *k = x.k + t * x.K, *d = x.decay + t * x.K, *b = x.b + t * x.K,
                *next_a = x.a + (t + 1 < tokens ? t + 1 : t) * x.K;
    Lanes value[kParts], sum[kParts] = {}, next[kParts] = {};
    for (int p = 0; p < kParts; ++p) value[p] = *reinterpret_cast<const Lanes*>(v + t * kColumns + p * kLanes);
    for (int64_t i = 0; i < x.K; ++i) {
#pragma GCC unroll 4
      for (int p = 0; p < kParts; ++p) {
        auto* at = reinterpret_cast<Lanes*>(S + i * kColumns + p * kLanes);
        const Lanes s = d[i] * *at + k[i] * value[p] + b[i] * removed[p];
        sum[p] += q[i] * s;
        next[p] += next_a[i] * s;
        *at = s;
      }
    }
    for (int p = 0; p < kParts; ++p) {
      *reinterpret_cast<Lanes*>(o + t * kColumns + p * kLanes) = sum[p];
      removed[p] = next[p];
    }
  }
}

// One token on a whole state [K, V].
FK_SIMD_CLONES void decay_step(const TokenRows& x, int64_t V, const float* v, float* o, float* S) {
  for (int64_t i = 0; i < x.K; ++i) {
    const float q = x.q[i], k = x.k[i], d = x.decay[i];
    float* row = S + i * V;
#pragma GCC ivdep
    for (int64_t j = 0; j < V; ++j) {
      row[j] = d * row[j] + k * v[j];
      o[j] += q * row[j];
    }
  }
}
FK_SIMD_CLONES void delta_step(const TokenRows& x, int64_t V, const float* v, float* o, float* removed, float* S) {
  for (int64_t i = 0; i < x.K; ++i)
#pragma GCC ivdep
    for (int64_t j = 0; j < V; ++j) removed[j] += x.a[i] * S[i * V + j];
  for (int64_t i = 0; i < x.K; ++i) {
    const float q = x.q[i], k = x.k[i], d = x.decay[i], b = x.b[i];
    float* row = S + i * V;
#pragma GCC ivdep
    for (int64_t j = 0; j < V; ++j) {
      row[j] = d * row[j] + k * v[j] + b * removed[j];
      o[j] += q * row[j];
    }
  }
}

void decode(Context& ctx, const LinearRecurrence& c) {
  const int64_t H = c.heads(), K = c.state.size(2), V = c.state.size(3);
  const int64_t floats = TokenRows::floats(1, K) + 3 * V + K * V;
  float* scratch = ctx.arena.make({{ctx.pool.threads(), floats}, DType::kF32}).ptr<float>();
  for_items(ctx.pool, c.sequences() * H, [&](int thread, int64_t item) {
    const int64_t s = item / H, h = item % H;
    float* own = scratch + thread * floats;
    TokenRows x(own, 1, K);
    float *v = own + TokenRows::floats(1, K), *o = v + V, *removed = o + V, *none = removed + V;
    x.set(c, s, h, 0);
    widen_row(c.v, s, c.head_of(c.v, h), 1, v);
    std::fill_n(o, 2 * V, 0.0f);
    const int32_t slot = c.state_slots.ptr<int32_t>()[s];
    float* S = none;
    if (slot >= 0)
      S = c.state.ptr<float>() + (slot * H + h) * K * V;
    else
      std::fill_n(none, K * V, 0.0f);
    if (c.has_delta())
      delta_step(x, V, v, o, removed, S);
    else
      decay_step(x, V, v, o, S);
    narrow_row(c.out, s, h, 0, V, o);
  });
}

void prefill(Context& ctx, const LinearRecurrence& c) {
  const int64_t H = c.heads(), K = c.state.size(2), V = c.state.size(3);
  const int64_t tiles = (V + kColumns - 1) / kColumns;
  const int64_t floats = TokenRows::floats(kTokensAtOnce, K) + 2 * kTokensAtOnce * kColumns + K * kColumns + V;
  float* scratch = ctx.arena.make({{ctx.pool.threads(), floats}, DType::kF32}).ptr<float>();
  const int32_t* starts = c.cu_seqlens->ptr<int32_t>();
  for_items(ctx.pool, c.sequences() * H * tiles, [&](int thread, int64_t item) {
    const int64_t s = item / (H * tiles), h = item / tiles % H, first = item % tiles * kColumns;
    const int64_t columns = std::min(kColumns, V - first);
    const int64_t begin = starts[s], end = starts[s + 1];
    if (begin >= end) return;
    float* own = scratch + thread * floats;
    TokenRows x(own, kTokensAtOnce, K);
    float *v = own + TokenRows::floats(kTokensAtOnce, K), *o = v + kTokensAtOnce * kColumns,
          *S = o + kTokensAtOnce * kColumns, *whole = S + K * kColumns;
    const int32_t slot = c.state_slots.ptr<int32_t>()[s];
    float* stored = slot < 0 ? nullptr : c.state.ptr<float>() + (slot * H + h) * K * V + first;
    std::fill_n(S, K * kColumns, 0.0f);
    for (int64_t i = 0; i < K && stored != nullptr; ++i) std::copy_n(stored + i * V, columns, S + i * kColumns);
    std::fill_n(v, kTokensAtOnce * kColumns, 0.0f);
    for (int64_t t = begin; t < end; t += kTokensAtOnce) {
      const int64_t tokens = std::min(kTokensAtOnce, end - t);
      for (int64_t i = 0; i < tokens; ++i) {
        x.set(c, t + i, h, i);
        widen_row(c.v, t + i, c.head_of(c.v, h), 1, whole);
        std::copy_n(whole + first, columns, v + i * kColumns);
      }
      std::fill_n(o, tokens * kColumns, 0.0f);
      if (c.has_delta())
        delta_tile(x, tokens, v, o, S);
      else
        decay_tile(x, tokens, v, o, S);
      for (int64_t i = 0; i < tokens; ++i) narrow_row(c.out, t + i, h, first, columns, o + i * kColumns);
    }
    for (int64_t i = 0; i < K && stored != nullptr; ++i) std::copy_n(S + i * kColumns, columns, stored + i * V);
  });
}

struct RecurrenceOnCpu {
  static std::string_view refuse(const LinearRecurrence& c) {
    const OptView q = c.q, k = c.k, v = c.v, out = c.out;
    if (std::string_view why = refuse_floats({&q, &k, &v, &c.a, &c.b, &out}); !why.empty()) return why;
    return linear_recurrence::refuse(c);
  }
  static void run(Context& ctx, const LinearRecurrence& c) {
    if (c.cu_seqlens)
      prefill(ctx, c);
    else
      decode(ctx, c);
  }
};

using ChunkGLAOnCpu = RunsRecurrence<ChunkGLA, RecurrenceOnCpu>;
using FusedRecurrentGLAOnCpu = RunsRecurrence<FusedRecurrentGLA, RecurrenceOnCpu>;
FK_IMPLEMENTATION(ChunkGLA, ChunkGLAOnCpu, "cpu.columns", DeviceKind::kCpu, 0, nullptr);
FK_IMPLEMENTATION(FusedRecurrentGLA, FusedRecurrentGLAOnCpu, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

using ChunkRetentionOnCpu = RunsRecurrence<ChunkRetention, RecurrenceOnCpu>;
using FusedRecurrentRetentionOnCpu = RunsRecurrence<FusedRecurrentRetention, RecurrenceOnCpu>;
FK_IMPLEMENTATION(ChunkRetention, ChunkRetentionOnCpu, "cpu.columns", DeviceKind::kCpu, 0, nullptr);
FK_IMPLEMENTATION(FusedRecurrentRetention, FusedRecurrentRetentionOnCpu, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

using ChunkGatedDeltaRuleOnCpu = RunsRecurrence<ChunkGatedDeltaRule, RecurrenceOnCpu>;
using FusedRecurrentGatedDeltaRuleOnCpu = RunsRecurrence<FusedRecurrentGatedDeltaRule, RecurrenceOnCpu>;
FK_IMPLEMENTATION(ChunkGatedDeltaRule, ChunkGatedDeltaRuleOnCpu, "cpu.columns", DeviceKind::kCpu, 0, nullptr);
FK_IMPLEMENTATION(FusedRecurrentGatedDeltaRule, FusedRecurrentGatedDeltaRuleOnCpu, "cpu.rows", DeviceKind::kCpu, 0,
                  nullptr);

using ChunkKDAOnCpu = RunsRecurrence<ChunkKDA, RecurrenceOnCpu>;
using FusedRecurrentKDAOnCpu = RunsRecurrence<FusedRecurrentKDA, RecurrenceOnCpu>;
FK_IMPLEMENTATION(ChunkKDA, ChunkKDAOnCpu, "cpu.columns", DeviceKind::kCpu, 0, nullptr);
FK_IMPLEMENTATION(FusedRecurrentKDA, FusedRecurrentKDAOnCpu, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

using ChunkRWKV7OnCpu = RunsRecurrence<ChunkRWKV7, RecurrenceOnCpu>;
using FusedRecurrentRWKV7OnCpu = RunsRecurrence<FusedRecurrentRWKV7, RecurrenceOnCpu>;
FK_IMPLEMENTATION(ChunkRWKV7, ChunkRWKV7OnCpu, "cpu.columns", DeviceKind::kCpu, 0, nullptr);
FK_IMPLEMENTATION(FusedRecurrentRWKV7, FusedRecurrentRWKV7OnCpu, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
