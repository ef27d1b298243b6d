// rms_norm (L1), naive: correct and slow. Make it fast, then run
//   fastkernels kernels --target rms_norm
//
// The arguments of one call, constructed with hidden_size=131, eps=1e-06, dtype=bf16:
//   x             bf16[5, 131]  input
//   residual      bf16[5, 131]  input, optional
//   out           bf16[5, 131]  output
//   residual_out  bf16[5, 131]  output, optional
// Its weights, by the names weight() takes:
//   weight  bf16[131]
#include <fastkernels/candidate.h>
#include <math.h>

class RMSNorm : public fk::RMSNorm {
 public:
  using fk::RMSNorm::RMSNorm;

  void forward(fk::Context& ctx, fk::View x, fk::OptView residual, fk::View out, fk::OptView residual_out) override {
    fk::with_float(x.dtype(), [&]<class T>(T) {
      const T* w = weight("weight").ptr<T>();
      int64_t D = x.size(-1), heads = x.rank() == 3 ? x.size(1) : 1;
      int64_t x_head = x.rank() == 3 ? x.stride(1) : 0, out_head = x.rank() == 3 ? out.stride(1) : 0;
      ctx.parallel_for(x.size(0), 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          for (int64_t h = 0; h < heads; ++h) {
            const T* row = x.row<T>(t) + h * x_head;
            T* result = out.row<T>(t) + h * out_head;
            if (residual) {
              T* sum = residual_out->row<T>(t);
              for (int64_t i = 0; i < D; ++i) sum[i] = T(row[i] + residual->row<T>(t)[i]);
              row = sum;
            }
            double squares = 0;
            for (int64_t i = 0; i < D; ++i) squares += double(row[i]) * row[i];
            double scale = 1 / sqrt(squares / D + init_.eps);
            for (int64_t i = 0; i < D; ++i) result[i] = T(row[i] * scale * double(w[i]));
          }
        }
      });
    });
  }
};

FK_CANDIDATE(RMSNorm)
