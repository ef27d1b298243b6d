// silu_and_mul, second step: float instead of double, and rows split so that several threads can work on one wide row.
#include <fastkernels/candidate.h>
#include <math.h>

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
          const T* up = gate + F;
          T* result = out.row<T>(k / pieces) + first;
          for (int64_t i = 0; i < n; ++i) result[i] = float(gate[i]) / (1 + expf(-float(gate[i]))) * float(up[i]);
        }
      });
    });
  }
};

FK_CANDIDATE(SiluAndMul)
