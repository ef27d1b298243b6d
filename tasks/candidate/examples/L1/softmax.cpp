// softmax, third step: an exponential that vectorises, computed once per element and kept in a buffer. The baseline
// computes it twice and needs no buffer; once is faster where the buffer stays in a near cache.
#include <fastkernels/candidate.h>
#include <math.h>

#include "../fast_exp.h"

class Softmax : public fk::Softmax {
 public:
  using fk::Softmax::Softmax;

  const char* refuse(fk::Args args) const override {
    // Few wide rows need every thread on each of them, which is the baseline's strength.
    return args[0].size(1) <= kLongest ? nullptr : "its rows have at most 16384 elements";
  }

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    int64_t N = x.size(1);
    fk::with_float(x.dtype(), [&]<class T>(T) {
      ctx.parallel_for(x.size(0), 1 + 16384 / N, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) row_softmax(x.row<T>(t), out.row<T>(t), N);
      });
    });
  }

 private:
  static constexpr int64_t kLongest = 16384, kBlock = 1024;  // blocks short enough for a float sum to keep its digits

  template <class T>
  static void row_softmax(const T* x, T* out, int64_t n) {
    alignas(64) float exps[kLongest];
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
