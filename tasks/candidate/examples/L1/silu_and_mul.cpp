// silu_and_mul, third step: an exponential that vectorises, in a separate loop that is simple enough for the compiler.
#include <fastkernels/candidate.h>

#include "../fast_exp.h"

class SiluAndMul : public fk::SiluAndMul {
 public:
  using fk::SiluAndMul::SiluAndMul;

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    int64_t F = out.size(1), piece = 8192, pieces = (F + piece - 1) / piece;
    fk::with_float(x.dtype(), [&]<class T>(T) {
      ctx.parallel_for(x.size(0) * pieces, 1 + 16384 / F, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
          int64_t first = k % pieces * piece, n = F - first < piece ? F - first : piece;
          const T* gate = x.row<T>(k / pieces) + first;
          silu_times(gate, gate + F, out.row<T>(k / pieces) + first, n);
        }
      });
    });
  }

 private:
  template <class T>
  static void silu_times(const T* gate, const T* up, T* out, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = silu(gate[i]) * float(up[i]);
  }
};

FK_CANDIDATE(SiluAndMul)
