// rms_norm (L1), naive: correct and slow. Make it fast, then run
//   fastkernels kernels --device cuda --target rms_norm
//
// The arguments of one call, constructed with hidden_size=131, eps=1e-06, dtype=bf16:
//   x             bf16[5, 131]  input
//   residual      bf16[5, 131]  input, optional
//   out           bf16[5, 131]  output
//   residual_out  bf16[5, 131]  output, optional
// Its weights, by the names weight() takes:
//   weight  bf16[131]
#include <fastkernels/candidate.h>

// One thread for each of n items, on the stream of the call.
template <class... P, class... A>
void launch(fk::Context& ctx, int64_t n, void (*kernel)(int64_t, P...), A... args) {
  if (n > 0) kernel<<<unsigned((n + 255) / 256), 256, 0, ctx.stream()>>>(n, args...);
  fk::launched("the kernel");
}
__device__ int64_t item() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }

// A thread for each row. Strides count elements; without heads there is one.
struct Rows {
  int64_t heads, width, stride, head_stride;
  __device__ int64_t start(int64_t r) const { return r / heads * stride + r % heads * head_stride; }
};

template <class T>
__global__ void norm_rows(int64_t n, const T* x, Rows x_rows, const T* residual, int64_t residual_stride, const T* w,
                          T* out, Rows out_rows, T* sums, int64_t sums_stride, double eps) {
  int64_t r = item(), D = x_rows.width;
  if (r >= n) return;
  const T* row = x + x_rows.start(r);
  if (residual != nullptr) {
    T* sum = sums + r * sums_stride;
    for (int64_t i = 0; i < D; ++i) sum[i] = T(float(row[i]) + float(residual[r * residual_stride + i]));
    row = sum;
  }
  double squares = 0;
  for (int64_t i = 0; i < D; ++i) squares += double(float(row[i])) * float(row[i]);
  double scale = 1 / sqrt(squares / double(D) + eps);
  T* result = out + out_rows.start(r);
  for (int64_t i = 0; i < D; ++i) result[i] = T(float(float(row[i]) * scale * (double(float(w[i])))));
}

class RMSNorm : public fk::RMSNorm {
 public:
  using fk::RMSNorm::RMSNorm;

  void forward(fk::Context& ctx, fk::View x, fk::OptView residual, fk::View out, fk::OptView residual_out) override {
    fk::with_float(x.dtype(), [&]<class T>(T) {
      launch(ctx, x.numel() / x.size(-1), norm_rows<T>, x.ptr<T>(), rows_of(x), residual ? residual->ptr<T>() : nullptr,
             residual ? residual->stride(0) : 0, weight("weight").ptr<T>(), out.ptr<T>(), rows_of(out),
             residual ? residual_out->ptr<T>() : nullptr, residual ? residual_out->stride(0) : 0, init_.eps);
    });
  }

 private:
  static Rows rows_of(const fk::View& v) {
    bool heads = v.rank() == 3;
    return {heads ? v.size(1) : 1, v.size(-1), v.stride(0), heads ? v.stride(1) : 0};
  }
};

FK_CANDIDATE(RMSNorm)
