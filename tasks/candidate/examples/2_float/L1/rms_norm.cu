// rms_norm on CUDA, second step: a block for each row, so that loads are coalesced, and sums in float.
#include <fastkernels/candidate.h>

#include "../../cuda_rows.cuh"

struct Rows {
  int64_t heads, stride, head_stride;
  __device__ int64_t start(int64_t r) const { return r / heads * stride + r % heads * head_stride; }
};

template <class T>
__global__ void norm_rows(const T* x, Rows x_rows, const T* residual, int64_t residual_stride, const T* w, T* out,
                          Rows out_rows, T* sums, int64_t sums_stride, int64_t D, float eps) {
  const T* row = x + x_rows.start(blockIdx.x);
  if (residual != nullptr) {
    T* sum = sums + blockIdx.x * sums_stride;
    const T* more = residual + blockIdx.x * residual_stride;
    for (int64_t i = threadIdx.x; i < D; i += blockDim.x) sum[i] = float(row[i]) + float(more[i]);
    row = sum;  // each thread reads again only what it wrote itself
  }
  float squares = 0;
  for (int64_t i = threadIdx.x; i < D; i += blockDim.x) squares += float(row[i]) * float(row[i]);
  float scale = rsqrtf(over_block(squares, 0, Add()) / float(D) + eps);
  T* result = out + out_rows.start(blockIdx.x);
  for (int64_t i = threadIdx.x; i < D; i += blockDim.x) result[i] = float(row[i]) * scale * float(w[i]);
}

class RMSNorm : public fk::RMSNorm {
 public:
  using fk::RMSNorm::RMSNorm;

  void forward(fk::Context& ctx, fk::View x, fk::OptView residual, fk::View out, fk::OptView residual_out) override {
    int64_t rows = x.numel() / x.size(-1);
    if (rows == 0) return;
    fk::with_float(x.dtype(), [&]<class T>(T) {
      norm_rows<<<unsigned(rows), 256, 0, ctx.stream()>>>(
          x.ptr<T>(), rows_of(x), residual ? residual->ptr<T>() : nullptr, residual ? residual->stride(0) : 0,
          weight("weight").ptr<T>(), out.ptr<T>(), rows_of(out), residual ? residual_out->ptr<T>() : nullptr,
          residual ? residual_out->stride(0) : 0, x.size(-1), float(init_.eps));
    });
    fk::launched("norm_rows");
  }

 private:
  static Rows rows_of(const fk::View& v) {
    bool heads = v.rank() == 3;
    return {heads ? v.size(1) : 1, v.stride(0), heads ? v.stride(1) : 0};
  }
};

FK_CANDIDATE(RMSNorm)
