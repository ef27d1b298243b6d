// silu_and_mul on CUDA, second step: float arithmetic, and rows in the grid's second dimension instead of a division
// for every element.
#include <fastkernels/candidate.h>

template <class T>
__global__ void silu_rows(const T* x, int64_t x_stride, T* out, int64_t out_stride, int64_t F, int64_t rows) {
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= F) return;
  for (int64_t t = blockIdx.y; t < rows; t += gridDim.y) {
    float gate = x[t * x_stride + i], up = x[t * x_stride + F + i];
    out[t * out_stride + i] = gate / (1 + expf(-gate)) * up;
  }
}

class SiluAndMul : public fk::SiluAndMul {
 public:
  using fk::SiluAndMul::SiluAndMul;

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    int64_t F = out.size(1), rows = out.size(0);
    if (out.numel() == 0) return;
    fk::with_float(x.dtype(), [&]<class T>(T) {
      dim3 grid(unsigned((F + 255) / 256), unsigned(rows < 65535 ? rows : 65535));
      silu_rows<<<grid, 256, 0, ctx.stream()>>>(x.ptr<T>(), x.stride(0), out.ptr<T>(), out.stride(0), F, rows);
    });
    fk::launched("silu_rows");
  }
};

FK_CANDIDATE(SiluAndMul)
