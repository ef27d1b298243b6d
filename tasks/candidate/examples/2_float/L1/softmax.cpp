// softmax, second step: float instead of double, and a reciprocal instead of a division per element.
#include <fastkernels/candidate.h>
#include <math.h>

class Softmax : public fk::Softmax {
 public:
  using fk::Softmax::Softmax;

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    int64_t N = x.size(1);
    fk::with_float(x.dtype(), [&]<class T>(T) {
      ctx.parallel_for(x.size(0), 1 + 16384 / N, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const T* row = x.row<T>(t);
          T* result = out.row<T>(t);
          float largest = -INFINITY;
          double sum = 0;  // a float sum over a vocabulary would be inaccurate
          for (int64_t i = 0; i < N; ++i) largest = row[i] > largest ? float(row[i]) : largest;
          for (int64_t i = 0; i < N; ++i) sum += expf(float(row[i]) - largest);
          float scale = float(1 / sum);
          for (int64_t i = 0; i < N; ++i) result[i] = expf(float(row[i]) - largest) * scale;
        }
      });
    });
  }
};

FK_CANDIDATE(Softmax)
