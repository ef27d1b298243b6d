// silu_and_mul (L1), naive: correct and slow. Make it fast, then run
//   fastkernels kernels --target silu_and_mul
//
// The arguments of one call:
//   x    bf16[5, 2048]  input
//   out  bf16[5, 1024]  output
#include <fastkernels/candidate.h>
#include <math.h>

class SiluAndMul : public fk::SiluAndMul {
 public:
  using fk::SiluAndMul::SiluAndMul;

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    int64_t F = out.size(1);
    fk::with_float(x.dtype(), [&]<class T>(T) {
      ctx.parallel_for(x.size(0), 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const T* gate = x.row<T>(t);
          const T* up = gate + F;
          for (int64_t i = 0; i < F; ++i) out.row<T>(t)[i] = T(gate[i] / (1 + exp(-double(gate[i]))) * up[i]);
        }
      });
    });
  }
};

FK_CANDIDATE(SiluAndMul)
