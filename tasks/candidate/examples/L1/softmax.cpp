// softmax, third step: an exponential that vectorises, computed once per element and kept in a buffer. The baseline
// computes it twice and needs no buffer; once is faster if the buffer stays in a cache.
#include <fastkernels/candidate.h>
#include <math.h>

#include "../fast_exp.h"

class Softmax : public fk::Softmax {
 public:
  using fk::Softmax::Softmax;

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    int64_t N = x.size(1);
    float* wide = N > kLongest ? ctx.scratch<float>(x.size(0) * N) : nullptr;
    fk::with_float(x.dtype(), [&]<class T>(T) {
      ctx.parallel_for(x.size(0), 1 + 16384 / N, [&](int64_t begin, int64_t end) {
        alignas(64) float narrow[kLongest];
        for (int64_t t = begin; t < end; ++t)
          row_softmax(x.row<T>(t), out.row<T>(t), wide == nullptr ? narrow : wide + t * N, N);
      });
    });
  }

 private:
  static constexpr int64_t kLongest = 16384, kBlock = 1024;  // blocks short enough for an accurate float sum

  template <class T>
  static void row_softmax(const T* x, T* out, float* exps, int64_t n) {
    float largest = -INFINITY;
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < n; ++i) largest = float(x[i]) > largest ? float(x[i]) : largest;
    double sum = 0;
    for (int64_t first = 0; first < n; first += kBlock) {
      int64_t last = first + kBlock < n ? first + kBlock : n;
      float part = 0;
#pragma omp simd reduction(+ : part)
      for (int64_t i = first; i < last; ++i) {
        exps[i] = fast_exp(float(x[i]) - largest);
        part += exps[i];
      }
      sum += double(part);
    }
    float scale = float(1 / sum);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = exps[i] * scale;
  }
};

FK_CANDIDATE(Softmax)
