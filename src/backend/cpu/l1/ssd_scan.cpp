// SSDScan on CPU: the states of a row side by side in vectors. Four tokens are applied to a piece of the state while it
// is in registers, so that the state is read and written once for four tokens.
#include "ops/l1/ssd_scan.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/for_items.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/vector_math.h"
#include "ops/register.h"

namespace fk {
namespace {

constexpr int kSsdTokens = 4;  // applied together

// kTokens tokens of one head: x [kTokens][P] already times dt, B and C [kTokens][N], y [kTokens][P], h [P][N].
template <int kTokens>
FK_INLINE void ssd_tokens_body(const float* x, const float* B, const float* C, const float* decay, float* y, float* h,
                               int64_t P, int64_t N) {
  for (int64_t p = 0; p < P; ++p) {
    float* row = h + p * N;
    float input[kTokens], sum[kTokens] = {};
    for (int t = 0; t < kTokens; ++t) input[t] = x[t * P + p];
    if constexpr (kTokens == 1) {
      float one = 0, a = decay[0], in = input[0];
#pragma omp simd reduction(+ : one)
      for (int64_t n = 0; n < N; ++n) {
        float state = a * row[n] + in * B[n];
        row[n] = state;
        one += state * C[n];
      }
      sum[0] = one;
    } else {
      static_assert(kTokens == 4);
      float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      const float a0 = decay[0], a1 = decay[1], a2 = decay[2], a3 = decay[3];
      const float x0 = input[0], x1 = input[1], x2 = input[2], x3 = input[3];
#pragma omp simd reduction(+ : s0, s1, s2, s3)
      for (int64_t n = 0; n < N; ++n) {
        float state = a0 * row[n] + x0 * B[n];
        s0 += state * C[n];
        state = a1 * state + x1 * B[N + n];
        s1 += state * C[N + n];
        state = a2 * state + x2 * B[2 * N + n];
        s2 += state * C[2 * N + n];
        state = a3 * state + x3 * B[3 * N + n];
        s3 += state * C[3 * N + n];
        row[n] = state;
      }
      sum[0] = s0;
      sum[1] = s1;
      sum[2] = s2;
      sum[3] = s3;
    }
    for (int t = 0; t < kTokens; ++t) y[t * P + p] = sum[t];
  }
}

FK_SIMD_CLONES void ssd_tokens(int tokens, const float* x, const float* B, const float* C, const float* decay, float* y,
                               float* h, int64_t P, int64_t N) {
  if (tokens == kSsdTokens) return ssd_tokens_body<kSsdTokens>(x, B, C, decay, y, h, P, N);
  for (int t = 0; t < tokens; ++t) ssd_tokens_body<1>(x + t * P, B + t * N, C + t * N, decay + t, y + t * P, h, P, N);
}

// Elements times a factor, as floats; and sums plus elements times a factor, as elements.
template <class T>
FK_INLINE void ssd_scaled_body(const T* from, float factor, float* to, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] = load(from[i]) * factor;
}
template <class T>
FK_INLINE void ssd_skip_body(const float* y, const T* x, float factor, T* to, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(to[i], y[i] + load(x[i]) * factor);
}

FK_SIMD_CLONES void ssd_scaled(const bf16* from, float factor, float* to, int64_t n) {
  ssd_scaled_body(from, factor, to, n);
}
FK_SIMD_CLONES void ssd_scaled(const f16* from, float factor, float* to, int64_t n) {
  ssd_scaled_body(from, factor, to, n);
}
FK_SIMD_CLONES void ssd_scaled(const float* from, float factor, float* to, int64_t n) {
  ssd_scaled_body(from, factor, to, n);
}
FK_SIMD_CLONES void ssd_skip(const float* y, const bf16* x, float factor, bf16* to, int64_t n) {
  ssd_skip_body(y, x, factor, to, n);
}
FK_SIMD_CLONES void ssd_skip(const float* y, const f16* x, float factor, f16* to, int64_t n) {
  ssd_skip_body(y, x, factor, to, n);
}
FK_SIMD_CLONES void ssd_skip(const float* y, const float* x, float factor, float* to, int64_t n) {
  ssd_skip_body(y, x, factor, to, n);
}

class SSDScanHeads final : public SSDScan {
 public:
  using SSDScan::SSDScan;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[2], &args[3], &args[7]}) : why;
  }

  void forward(Context& ctx, View x, View dt, View B, View C, View ssm_state, View state_slots, OptView cu_seqlens,
               View out) override {
    const int64_t H = init_.num_heads, P = init_.head_dim, N = init_.state_size, per_group = H / init_.n_groups;
    const auto* slots = state_slots.ptr<int32_t>();
    const int32_t* offsets = cu_seqlens ? cu_seqlens->ptr<int32_t>() : nullptr;
    // x and y of four tokens, their B and C, and a state for sequences without a slot.
    const int64_t room = kSsdTokens * 2 * (P + N) + P * N;
    auto* scratch = ctx.arena.make({{ctx.pool.threads(), room}, DType::kF32}).ptr<float>();
    with_float(x.dtype(), [&]<class T>(T) {
      for_items(ctx.pool, state_slots.size(0) * H, [&](int thread, int64_t item) {
        const int64_t s = item / H, head = item % H, group = head / per_group * N;
        const int64_t first = offsets != nullptr ? offsets[s] : s, last = offsets != nullptr ? offsets[s + 1] : s + 1;
        float *inputs = scratch + thread * room, *y = inputs + kSsdTokens * P, *b = y + kSsdTokens * P,
              *c = b + kSsdTokens * N, *h = c + kSsdTokens * N;
        if (slots[s] >= 0)
          h = ssm_state.ptr<float>() + slots[s] * ssm_state.stride(0) + head * P * N;
        else
          std::fill_n(h, P * N, 0.0f);
        for (int64_t t = first; t < last; t += kSsdTokens) {
          const auto tokens = static_cast<int>(std::min<int64_t>(kSsdTokens, last - t));
          float decay[kSsdTokens];
          for (int i = 0; i < tokens; ++i) {
            float step = softplus(load(row_of<T>(dt, t + i)[head]) + bias_[static_cast<size_t>(head)]);
            decay[i] = std::exp(step * A_[static_cast<size_t>(head)]);
            ssd_scaled(row_of<T>(x, t + i) + head * P, step, inputs + i * P, P);
            ssd_scaled(row_of<T>(B, t + i) + group, 1, b + i * N, N);
            ssd_scaled(row_of<T>(C, t + i) + group, 1, c + i * N, N);
          }
          ssd_tokens(tokens, inputs, b, c, decay, y, h, P, N);
          for (int i = 0; i < tokens; ++i)
            ssd_skip(y + i * P, row_of<T>(x, t + i) + head * P, skip_[static_cast<size_t>(head)],
                     row_of<T>(out, t + i) + head * P, P);
        }
      });
    });
  }

 private:
  void prepare() override {
    const auto H = static_cast<size_t>(init_.num_heads);
    A_.resize(H);
    bias_.resize(H);
    skip_.resize(H);
    for (size_t i = 0; i < H; ++i) {
      A_[i] = static_cast<float>(-std::exp(get(A_log(), static_cast<int64_t>(i))));
      bias_[i] = static_cast<float>(get(dt_bias(), static_cast<int64_t>(i)));
      skip_[i] = static_cast<float>(get(skip(), static_cast<int64_t>(i)));
    }
  }

  std::vector<float> A_, bias_, skip_;
};

FK_IMPLEMENTATION(SSDScan, SSDScanHeads, "cpu.heads", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
