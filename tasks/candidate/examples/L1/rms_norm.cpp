// rms_norm, third step: weights become floats once, in prepare(), and a row is converted once: the loop for the sum of
// squares stores it in a buffer that the last loop reads.
#include <fastkernels/candidate.h>
#include <math.h>

#include <vector>

class RMSNorm : public fk::RMSNorm {
 public:
  using fk::RMSNorm::RMSNorm;

  const char* refuse(fk::Args args) const override {
    return args[0].size(-1) <= kLongest ? nullptr : "its rows have at most 16384 elements";
  }

  void prepare() override {
    fk::View w = weight("weight");
    weight_.resize(size_t(w.size(0)));
    fk::with_float(w.dtype(), [&]<class T>(T) {
      for (size_t i = 0; i < weight_.size(); ++i) weight_[i] = w.ptr<T>()[i];
    });
  }

  void forward(fk::Context& ctx, fk::View x, fk::OptView residual, fk::View out, fk::OptView residual_out) override {
    fk::with_float(x.dtype(), [&]<class T>(T) {
      int64_t D = x.size(-1), heads = x.rank() == 3 ? x.size(1) : 1;
      int64_t x_head = x.rank() == 3 ? x.stride(1) : 0, out_head = x.rank() == 3 ? out.stride(1) : 0;
      ctx.parallel_for(x.size(0), 1 + 16384 / (D * heads), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          if (residual)
            add_and_normalise(x.row<T>(t), residual->row<T>(t), out.row<T>(t), residual_out->row<T>(t), D);
          else
            for (int64_t h = 0; h < heads; ++h) normalise(x.row<T>(t) + h * x_head, out.row<T>(t) + h * out_head, D);
        }
      });
    });
  }

 private:
  static constexpr int64_t kLongest = 16384;

  template <class T>
  void normalise(const T* x, T* out, int64_t n) const {
    alignas(64) float row[kLongest];
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < n; ++i) {
      row[i] = x[i];
      squares += row[i] * row[i];
    }
    scale_into(row, squares, out, n);
  }

  template <class T>
  void add_and_normalise(const T* x, const T* residual, T* out, T* residual_out, int64_t n) const {
    alignas(64) float row[kLongest];
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < n; ++i) {
      residual_out[i] = float(x[i]) + float(residual[i]);
      row[i] = residual_out[i];  // rounded: out must be consistent with residual_out
      squares += row[i] * row[i];
    }
    scale_into(row, squares, out, n);
  }

  template <class T>
  void scale_into(const float* row, float squares, T* out, int64_t n) const {
    float scale = 1 / sqrtf(squares / float(n) + float(init_.eps));
    const float* w = weight_.data();
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = row[i] * scale * w[i];
  }

  std::vector<float> weight_;
};

FK_CANDIDATE(RMSNorm)
