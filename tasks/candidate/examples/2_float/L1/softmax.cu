// softmax on CUDA, second step: a block for each row and float arithmetic; the row is read three times, the second and
// third time from a cache.
#include <fastkernels/candidate.h>

#include "../../cuda_rows.cuh"

template <class T>
__global__ void softmax_rows(const T* x, int64_t x_stride, T* out, int64_t out_stride, int64_t N) {
  const T* row = x + blockIdx.x * x_stride;
  float largest = __int_as_float(0xff800000), sum = 0;  // minus infinity
  for (int64_t i = threadIdx.x; i < N; i += blockDim.x) largest = fmaxf(largest, float(row[i]));
  largest = over_block(largest, largest, Larger());
  for (int64_t i = threadIdx.x; i < N; i += blockDim.x) sum += expf(float(row[i]) - largest);
  float scale = 1 / over_block(sum, 0, Add());
  for (int64_t i = threadIdx.x; i < N; i += blockDim.x)
    out[blockIdx.x * out_stride + i] = expf(float(row[i]) - largest) * scale;
}

class Softmax : public fk::Softmax {
 public:
  using fk::Softmax::Softmax;

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    if (x.numel() == 0) return;
    fk::with_float(x.dtype(), [&]<class T>(T) {
      softmax_rows<<<unsigned(x.size(0)), 512, 0, ctx.stream()>>>(x.ptr<T>(), x.stride(0), out.ptr<T>(), out.stride(0),
                                                                  x.size(1));
    });
    fk::launched("softmax_rows");
  }
};

FK_CANDIDATE(Softmax)
