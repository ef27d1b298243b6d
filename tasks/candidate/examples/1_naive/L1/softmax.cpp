// softmax (L1), naive: correct and slow. Make it fast, then run
//   fastkernels kernels --target softmax
//
// The arguments of one call:
//   x    bf16[3, 77]  input
//   out  bf16[3, 77]  output
#include <fastkernels/candidate.h>
#include <math.h>

class Softmax : public fk::Softmax {
 public:
  using fk::Softmax::Softmax;

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    int64_t N = x.size(1);
    fk::with_float(x.dtype(), [&]<class T>(T) {
      ctx.parallel_for(x.size(0), 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const T* row = x.row<T>(t);
          double largest = -INFINITY, sum = 0;
          for (int64_t i = 0; i < N; ++i) largest = row[i] > largest ? double(row[i]) : largest;
          for (int64_t i = 0; i < N; ++i) sum += exp(row[i] - largest);
          for (int64_t i = 0; i < N; ++i) out.row<T>(t)[i] = T(exp(row[i] - largest) / sum);
        }
      });
    });
  }
};

FK_CANDIDATE(Softmax)
