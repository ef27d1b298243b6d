// silu_and_mul (L1), naive: correct and slow. Make it fast, then run
//   fastkernels kernels --device cuda --target silu_and_mul
//
// The arguments of one call:
//   x    bf16[5, 2048]  input
//   out  bf16[5, 1024]  output
#include <fastkernels/candidate.h>

// One thread for each of n items, on the stream of the call.
template <class... P, class... A>
void launch(fk::Context& ctx, int64_t n, void (*kernel)(int64_t, P...), A... args) {
  if (n > 0) kernel<<<unsigned((n + 255) / 256), 256, 0, ctx.stream()>>>(n, args...);
  fk::launched("the kernel");
}
__device__ int64_t item() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }

// A thread for each element of the result.
template <class T>
__global__ void activate(int64_t n, const T* x, int64_t x_stride, T* out, int64_t out_stride, int64_t F) {
  int64_t at = item();
  if (at >= n) return;
  const T* gate = x + at / F * x_stride + at % F;
  double g = float(gate[0]), up = float(gate[F]);
  out[at / F * out_stride + at % F] = T(float(g / (1 + exp(-g)) * up));
}

class SiluAndMul : public fk::SiluAndMul {
 public:
  using fk::SiluAndMul::SiluAndMul;

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    fk::with_float(x.dtype(), [&]<class T>(T) {
      launch(ctx, out.numel(), activate<T>, x.ptr<T>(), x.stride(0), out.ptr<T>(), out.stride(0), out.size(1));
    });
  }
};

FK_CANDIDATE(SiluAndMul)
