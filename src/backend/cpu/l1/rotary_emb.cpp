// RotaryEmbedding on CPU: computes sines and cosines of a token once, then rotates every head.
#include "ops/l1/rotary_emb.h"

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/vector_math.h"
#include "ops/register.h"

namespace fk {
namespace {

// Pairs whose angles are computed at a time; their sines and cosines stay in L1.
constexpr int64_t kPairs = 128;

struct Angles {
  alignas(64) float cos[kPairs];
  alignas(64) float sin[kPairs];
};

FK_SIMD_CLONES void compute_angles(double position, const double* frequencies, int64_t n, float factor,
                                   Angles& angles) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    SinCos turn = sin_cos(position * frequencies[i]);
    angles.cos[i] = factor * turn.cos;
    angles.sin[i] = factor * turn.sin;
  }
}

// Elements a[i * step] and b[i * step] of one head are a pair.
template <int kStep, class T>
FK_INLINE void turn_body(T* a, T* b, int64_t n, const Angles& angles) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float x = load(a[i * kStep]), y = load(b[i * kStep]), c = angles.cos[i], s = angles.sin[i];
    store(a[i * kStep], x * c - y * s);
    store(b[i * kStep], y * c + x * s);
  }
}

FK_SIMD_CLONES void turn_halves(bf16* a, bf16* b, int64_t n, const Angles& angles) { turn_body<1>(a, b, n, angles); }
FK_SIMD_CLONES void turn_halves(f16* a, f16* b, int64_t n, const Angles& angles) { turn_body<1>(a, b, n, angles); }
FK_SIMD_CLONES void turn_halves(float* a, float* b, int64_t n, const Angles& angles) { turn_body<1>(a, b, n, angles); }
FK_SIMD_CLONES void turn_neighbours(bf16* a, int64_t n, const Angles& angles) { turn_body<2>(a, a + 1, n, angles); }
FK_SIMD_CLONES void turn_neighbours(f16* a, int64_t n, const Angles& angles) { turn_body<2>(a, a + 1, n, angles); }
FK_SIMD_CLONES void turn_neighbours(float* a, int64_t n, const Angles& angles) { turn_body<2>(a, a + 1, n, angles); }

class RotaryEmbeddingTokenPerThread final : public RotaryEmbedding {
 public:
  explicit RotaryEmbeddingTokenPerThread(const Init& init)
      : RotaryEmbedding(init), frequencies_(inverse_frequencies(init)) {}

  std::string_view refuse(Args args) const override {
    if (args[0]->dtype() != DType::kI64) return "positions must be i64";
    return refuse_floats({&args[1], &args[2]});
  }

  void forward(Context& ctx, View positions, View query, OptView key) override {
    const auto* position = positions.ptr<int64_t>();
    int64_t width = query.size(1) + (key ? key->size(1) : 0), half = init_.rotary_dim / 2;
    with_float(query.dtype(), [&]<class T>(T) {
      for_rows(ctx.pool, positions.size(0), width, [&](int64_t begin, int64_t end) {
        Angles angles;
        for (int64_t t = begin; t < end; ++t) {
          for (int64_t first = 0; first < half; first += kPairs) {
            int64_t n = std::min(kPairs, half - first);
            compute_angles(static_cast<double>(position[t * positions.stride(0)]), frequencies_.data() + first, n,
                           static_cast<float>(init_.rope_scaling.attention_factor), angles);
            turn_heads(row_of<T>(query, t), query.size(1), first, n, angles);
            if (key) turn_heads(row_of<T>(*key, t), key->size(1), first, n, angles);
          }
        }
      });
    });
  }

 private:
  template <class T>
  void turn_heads(T* row, int64_t width, int64_t first, int64_t n, const Angles& angles) const {
    int64_t half = init_.rotary_dim / 2;
    for (T* head = row + init_.rotary_offset; head < row + width; head += init_.head_size) {
      if (init_.is_neox_style)
        turn_halves(head + first, head + half + first, n, angles);
      else
        turn_neighbours(head + 2 * first, n, angles);
    }
  }

  const std::vector<double> frequencies_;
};

FK_IMPLEMENTATION(RotaryEmbedding, RotaryEmbeddingTokenPerThread, "cpu.token_per_thread", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
