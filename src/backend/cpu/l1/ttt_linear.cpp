// TTTLinear on CPU in f32: in pieces of a mini-batch, whose tokens share one pass over the model, and token by token.
//
// Inside a piece the changes of its own tokens need no matrix: u (k^T g) is (u k^T) g, a product of two vectors for
// each pair of tokens.
#include "ops/l1/ttt_linear.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/for_items.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

constexpr int64_t kTttPiece = 16;  // tokens of a piece at most

template <class T>
FK_INLINE void ttt_widen(const T* from, float factor, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = factor * load(from[i]);
}
FK_SIMD_CLONES void ttt_widen_bf16(const bf16* from, float f, float* to, int64_t n) { ttt_widen(from, f, to, n); }
FK_SIMD_CLONES void ttt_widen_f16(const f16* from, float f, float* to, int64_t n) { ttt_widen(from, f, to, n); }
FK_SIMD_CLONES void ttt_widen_f32(const float* from, float f, float* to, int64_t n) { ttt_widen(from, f, to, n); }

// Elements `at` to `at` + n - 1 of a tensor of bf16, f16 or f32, times a factor.
void ttt_read(const View& x, int64_t at, float factor, float* to, int64_t n) {
  if (x.dtype() == DType::kBF16)
    ttt_widen_bf16(x.ptr<bf16>() + at, factor, to, n);
  else if (x.dtype() == DType::kF16)
    ttt_widen_f16(x.ptr<f16>() + at, factor, to, n);
  else
    ttt_widen_f32(x.ptr<float>() + at, factor, to, n);
}

template <class T>
FK_INLINE void ttt_narrow(const float* from, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) store(to[i], from[i]);
}
FK_SIMD_CLONES void ttt_narrow_bf16(const float* from, bf16* to, int64_t n) { ttt_narrow(from, to, n); }
FK_SIMD_CLONES void ttt_narrow_f16(const float* from, f16* to, int64_t n) { ttt_narrow(from, to, n); }

FK_SIMD_CLONES void ttt_add_to(const float* a, const float* b, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = a[i] + b[i];
}
// Rows of `to` += one element of each row of x, times the row.
FK_SIMD_CLONES void ttt_add_products(const float* x, const float* row, float* to, int64_t tokens, int64_t D) {
  for (int64_t t = 0; t < tokens; ++t) {
    const float factor = x[t * D];
    for (int64_t j = 0; j < D; ++j) to[t * D + j] += factor * row[j];
  }
}
FK_SIMD_CLONES void ttt_add_scaled(const float* from, float factor, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}
FK_SIMD_CLONES float ttt_sum(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  return static_cast<float>(sum);
}
FK_SIMD_CLONES float ttt_dot(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return static_cast<float>(sum);
}

// A row becomes itself less its mean, over the root of its variance and eps; returns one over that root.
FK_SIMD_CLONES float ttt_norm(float* row, double eps, int64_t n) {
  double mean = 0, variance = 0;
  for (int64_t i = 0; i < n; ++i) mean += static_cast<double>(row[i]);
  mean /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i)
    variance += (static_cast<double>(row[i]) - mean) * (static_cast<double>(row[i]) - mean);
  const auto factor = static_cast<float>(1 / std::sqrt(variance / static_cast<double>(n) + eps));
  for (int64_t i = 0; i < n; ++i) row[i] = (row[i] - static_cast<float>(mean)) * factor;
  return factor;
}

// z, which is normed, becomes the gradient of the loss for z as it was.
FK_SIMD_CLONES void ttt_gradient(float* z, float inverse_root, const float* k, const float* v, const float* weight,
                                 const float* bias, float* scratch, int64_t n) {
  for (int64_t i = 0; i < n; ++i) scratch[i] = weight[i] * (weight[i] * z[i] + bias[i] - v[i] + k[i]);
  const float mean = ttt_sum(scratch, n) / static_cast<float>(n),
              along = ttt_dot(scratch, z, n) / static_cast<float>(n);
  for (int64_t i = 0; i < n; ++i) z[i] = (scratch[i] - mean - z[i] * along) * inverse_root;
}

// What one thread needs for a head.
struct TttScratch {
  float *q, *k, *v, *g, *o, *earlier;  // rows of a piece
  float *weight, *bias, *row, *spare;  // of D
  float* state;                        // of a sequence that keeps nothing
  static int64_t floats(int64_t D) { return 6 * kTttPiece * D + 4 * D + 2 * (D + 1) * D; }
  TttScratch(float* memory, int64_t D) {
    for (float** rows : {&q, &k, &v, &g, &o, &earlier}) {
      *rows = memory;
      memory += kTttPiece * D;
    }
    for (float** one : {&weight, &bias, &row, &spare}) {
      *one = memory;
      memory += D;
    }
    state = memory;
  }
};

// kPiece: tokens that share a pass over the model.
template <int64_t kPiece>
class TTTLinearPieces final : public TTTLinear {
 public:
  using TTTLinear::TTTLinear;

  std::string_view refuse(Args args) const override {
    if (kPiece > 1 && !args[7]) return "one token of each sequence is no piece of a mini-batch";
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[2], &args[8]}) : why;
  }

  void forward(Context& ctx, View q, View k, View v, View eta, View positions, View ttt_state, View state_slots,
               OptView cu_seqlens, View out) override {
    const int64_t H = init_.num_heads, D = init_.head_dim, floats = TttScratch::floats(D);
    float* memory = ctx.arena.make({{ctx.pool.threads(), floats}, DType::kF32}).template ptr<float>();
    for_items(ctx.pool, state_slots.size(0) * H, [&](int thread, int64_t item) {
      const int64_t s = item / H, h = item % H, slot = state_slots.ptr<int32_t>()[s];
      const int64_t first = cu_seqlens ? cu_seqlens->ptr<int32_t>()[s] : s,
                    last = cu_seqlens ? cu_seqlens->ptr<int32_t>()[s + 1] : s + 1;
      TttScratch x(memory + thread * floats, D);
      const int64_t entry = 2 * (D + 1) * D;
      float* state = x.state;
      if (slot >= 0)
        state = ttt_state.ptr<float>() + slot * ttt_state.stride(0) + h * entry;
      else
        std::fill_n(state, entry, 0.0f);
      ttt_read(norm_weight(), h * D, 1, x.weight, D);
      ttt_read(norm_bias(), h * D, 1, x.bias, D);
      for (int64_t t = first; t < last;) {
        const int64_t place = positions.ptr<int64_t>()[t] % init_.mini_batch_size;
        const int64_t tokens = std::min({kPiece, last - t, init_.mini_batch_size - place});
        for (int64_t i = 0; i < tokens; ++i) {
          auto at = [&](const View& heads) { return (t + i) * heads.stride(0) + h * heads.stride(1); };
          ttt_read(q, at(q), static_cast<float>(init_.query_scale()), x.q + i * D, D);
          ttt_read(k, at(k), 1, x.k + i * D, D);
          ttt_read(v, at(v), 1, x.v + i * D, D);
        }
        run_piece(x, state, h, eta.ptr<float>() + t * eta.stride(0) + h, eta.stride(0), place, tokens);
        for (int64_t i = 0; i < tokens; ++i) write_row(out, t + i, h, x.o + i * D);
        t += tokens;
      }
    });
  }

 private:
  void run_piece(const TttScratch& x, float* state, int64_t h, const float* eta, int64_t eta_stride, int64_t place,
                 int64_t tokens) const {
    const int64_t D = init_.head_dim;
    float* changes = state + (D + 1) * D;
    const bool begins = place == 0, ends = place + tokens == init_.mini_batch_size;
    // The bias of the model, then its rows.
    ttt_read(b1(), h * D, 1, x.row, D);
    ttt_add_to(x.row, state + D * D, x.row, D);
    for (int64_t i = 0; i < tokens; ++i) {
      std::copy_n(x.row, D, x.g + i * D);
      std::copy_n(x.row, D, x.o + i * D);
      if (!begins) std::copy_n(changes + D * D, D, x.earlier + i * D);
    }
    for (int64_t d = 0; d < D; ++d) {
      ttt_read(W1(), (h * D + d) * D, 1, x.row, D);
      ttt_add_to(x.row, state + d * D, x.row, D);
      ttt_add_products(x.k + d, x.row, x.g, tokens, D);
      ttt_add_products(x.q + d, x.row, x.o, tokens, D);
      if (!begins) ttt_add_products(x.q + d, changes + d * D, x.earlier, tokens, D);
    }
    for (int64_t i = 0; i < tokens; ++i) {
      float *g = x.g + i * D, *o = x.o + i * D;
      const float inverse_root = ttt_norm(g, init_.eps, D), rate = eta[i * eta_stride];
      ttt_gradient(g, inverse_root, x.k + i * D, x.v + i * D, x.weight, x.bias, x.spare, D);
      if (!begins) ttt_add_scaled(x.earlier + i * D, -rate, o, D);
      for (int64_t j = 0; j <= i; ++j)
        ttt_add_scaled(x.g + j * D, -rate * (ttt_dot(x.q + i * D, x.k + j * D, D) + 1), o, D);
      std::copy_n(o, D, x.spare);
      ttt_norm(x.spare, init_.eps, D);
      for (int64_t j = 0; j < D; ++j) o[j] += x.spare[j] * x.weight[j] + x.bias[j];
    }
    // What the piece changes is added to the sum, or at the end of the mini-batch, with the sum, to the model.
    const float rate = eta[(tokens - 1) * eta_stride];
    for (int64_t d = 0; d <= D; ++d) {
      float* sum = changes + d * D;
      if (begins) std::fill_n(sum, D, 0.0f);
      for (int64_t i = 0; i < tokens; ++i) ttt_add_scaled(x.g + i * D, d < D ? x.k[i * D + d] : 1.0f, sum, D);
      if (!ends) continue;
      ttt_add_scaled(sum, -rate, state + d * D, D);
      std::fill_n(sum, D, 0.0f);
    }
  }

  static void write_row(const View& out, int64_t t, int64_t h, const float* from) {
    const int64_t at = t * out.stride(0) + h * out.stride(1), n = out.size(2);
    if (out.dtype() == DType::kBF16)
      ttt_narrow_bf16(from, out.ptr<bf16>() + at, n);
    else if (out.dtype() == DType::kF16)
      ttt_narrow_f16(from, out.ptr<f16>() + at, n);
    else
      std::memcpy(out.ptr<float>() + at, from, static_cast<size_t>(n) * sizeof(float));
  }
};

using TTTLinearMiniBatches = TTTLinearPieces<kTttPiece>;
using TTTLinearSteps = TTTLinearPieces<1>;
FK_IMPLEMENTATION(TTTLinear, TTTLinearMiniBatches, "cpu.mini_batches", DeviceKind::kCpu, 1, nullptr);
FK_IMPLEMENTATION(TTTLinear, TTTLinearSteps, "cpu.steps", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
