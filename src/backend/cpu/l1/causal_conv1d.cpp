// CausalConv1d on CPU: channels side by side in vectors; a thread walks the tokens of a sequence for some channels, so
// that it alone reads and writes their window.
#include "ops/l1/causal_conv1d.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/vector_math.h"
#include "ops/register.h"

namespace fk {
namespace {

constexpr int64_t kConvChannels = 512;  // of one piece of work; its weights stay in L1

// Weights [W, C] in f32 from the first channel on, rows C apart; rows of the W tokens from the oldest on.
struct ConvWeights {
  const float* weight;
  const float* bias;
  int64_t pitch;
  int64_t width;
  bool silu;
};

// Pointers by name: a loop over an inner loop of W steps does not vectorise.
template <class T, size_t... K>
FK_INLINE void conv_token_of_width(const T* const* rows, const ConvWeights& w, T* out, int64_t n,
                                   std::index_sequence<K...>) {
  const T* const row[] = {rows[K]...};
  const float* const weight[] = {w.weight + static_cast<int64_t>(K) * w.pitch...};
  const float* const bias = w.bias;
  // Not a condition inside of the loop, which GCC then does not vectorise on aarch64.
  if (!w.silu) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(out[i], (bias[i] + ... + (weight[K][i] * load(row[K][i]))));
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float sum = (bias[i] + ... + (weight[K][i] * load(row[K][i])));
    store(out[i], sum / (1.0f + vexp_bounded(-sum)));
  }
}

template <class T>
FK_INLINE void conv_token_body(const T* const* rows, const ConvWeights& w, T* out, int64_t n) {
  switch (w.width) {
    case 2:
      return conv_token_of_width(rows, w, out, n, std::make_index_sequence<2>{});
    case 3:
      return conv_token_of_width(rows, w, out, n, std::make_index_sequence<3>{});
    case 4:
      return conv_token_of_width(rows, w, out, n, std::make_index_sequence<4>{});
    default: {
      float sums[kConvChannels];
      std::copy_n(w.bias, n, sums);
      for (int64_t k = 0; k < w.width; ++k) {
        const float* weight = w.weight + k * w.pitch;
        const T* row = rows[k];
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) sums[i] += weight[i] * load(row[i]);
      }
      if (w.silu) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) sums[i] = sums[i] / (1.0f + vexp_bounded(-sums[i]));
      }
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) store(out[i], sums[i]);
    }
  }
}

FK_SIMD_CLONES void conv_token(const bf16* const* rows, const ConvWeights& w, bf16* out, int64_t n) {
  conv_token_body(rows, w, out, n);
}
FK_SIMD_CLONES void conv_token(const f16* const* rows, const ConvWeights& w, f16* out, int64_t n) {
  conv_token_body(rows, w, out, n);
}
FK_SIMD_CLONES void conv_token(const float* const* rows, const ConvWeights& w, float* out, int64_t n) {
  conv_token_body(rows, w, out, n);
}

class CausalConv1dChannels final : public CausalConv1d {
 public:
  using CausalConv1d::CausalConv1d;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[4]}) : why;
  }

  void forward(Context& ctx, View x, View conv_state, View state_slots, OptView cu_seqlens, View out) override {
    const int64_t C = init_.dim, pieces = (C + kConvChannels - 1) / kConvChannels, S = state_slots.size(0);
    const auto* slots = state_slots.ptr<int32_t>();
    const int32_t* offsets = cu_seqlens ? cu_seqlens->ptr<int32_t>() : nullptr;
    const int64_t tokens = S > 0 ? std::max<int64_t>(1, x.size(0) / S) : 1;
    with_float(x.dtype(), [&]<class T>(T) {
      for_rows(ctx.pool, S * pieces, tokens * std::min(C, kConvChannels), [&](int64_t begin, int64_t end) {
        for (int64_t item = begin; item < end; ++item) {
          const int64_t s = item / pieces, channel = item % pieces * kConvChannels;
          const int64_t first = offsets != nullptr ? offsets[s] : s, last = offsets != nullptr ? offsets[s + 1] : s + 1;
          T* window = slots[s] >= 0 ? conv_state.ptr<T>() + slots[s] * conv_state.stride(0) + channel : nullptr;
          walk(row_of<T>(x, 0) + channel, x.stride(0), first, last, window, row_of<T>(out, 0) + channel, out.stride(0),
               channel, std::min(kConvChannels, C - channel));
        }
      });
    });
  }

 private:
  void prepare() override {
    const int64_t C = init_.dim, W = init_.width;
    packed_.resize(static_cast<size_t>((W + 1) * C));
    for (int64_t c = 0; c < C; ++c) {
      for (int64_t k = 0; k < W; ++k)
        packed_[static_cast<size_t>(k * C + c)] = static_cast<float>(get(param(0), c, 0, k));
      packed_[static_cast<size_t>(W * C + c)] = init_.bias ? static_cast<float>(get(param(1), c)) : 0;
    }
  }

  template <class T>
  void walk(const T* x, int64_t x_stride, int64_t first, int64_t last, T* window, T* out, int64_t out_stride,
            int64_t channel, int64_t n) const {
    static constexpr T kZeros[kConvChannels] = {};
    const int64_t C = init_.dim, W = init_.width;
    const ConvWeights w{packed_.data() + channel, packed_.data() + W * C + channel, C, W, init_.silu};
    // Token i of the sequence; those before its first are in the window.
    auto token = [&](int64_t i) -> const T* {
      if (i >= 0) return x + (first + i) * x_stride;
      return window != nullptr ? window + (W - 1 + i) * C : kZeros;
    };
    const T* rows[kMaxWidth];
    const int64_t count = last - first;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t k = 0; k < W; ++k) rows[k] = token(i - (W - 1) + k);
      conv_token(rows, w, out + (first + i) * out_stride, n);
    }
    // Oldest first, so that a row is read before it is overwritten.
    if (window == nullptr || count == 0) return;
    for (int64_t k = 0; k < W - 1; ++k) std::copy_n(token(count - (W - 1) + k), n, window + k * C);
  }

  std::vector<float> packed_;
};

FK_IMPLEMENTATION(CausalConv1d, CausalConv1dChannels, "cpu.channels", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
