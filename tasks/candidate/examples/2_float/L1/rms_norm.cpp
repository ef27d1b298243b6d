// rms_norm, second step: float instead of double, loops the compiler can vectorise, and enough rows per task to make up
// for waking a thread.
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
      int64_t rows_per_task = 1 + 16384 / (D * heads);
      ctx.parallel_for(x.size(0), rows_per_task, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          for (int64_t h = 0; h < heads; ++h) {
            const T* row = x.row<T>(t) + h * x_head;
            if (residual) {
              T* sum = residual_out->row<T>(t);
              add(row, residual->row<T>(t), sum, D);
              row = sum;
            }
            normalise(row, w, out.row<T>(t) + h * out_head, D);
          }
        }
      });
    });
  }

 private:
  template <class T>
  static void add(const T* a, const T* b, T* sum, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sum[i] = float(a[i]) + float(b[i]);
  }

  template <class T>
  void normalise(const T* row, const T* w, T* out, int64_t n) const {
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < n; ++i) squares += float(row[i]) * float(row[i]);
    float scale = 1 / sqrtf(squares / float(n) + float(init_.eps));
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = float(row[i]) * scale * float(w[i]);
  }
};

FK_CANDIDATE(RMSNorm)
