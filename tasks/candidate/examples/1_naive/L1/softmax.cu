// softmax (L1), naive: correct and slow. Make it fast, then run
//   fastkernels kernels --device cuda --target softmax
//
// The arguments of one call:
//   x    bf16[3, 77]  input
//   out  bf16[3, 77]  output
#include <fastkernels/candidate.h>

// One thread for each of n items, on the stream of the call.
template <class... P, class... A>
void launch(fk::Context& ctx, int64_t n, void (*kernel)(int64_t, P...), A... args) {
  if (n > 0) kernel<<<unsigned((n + 255) / 256), 256, 0, ctx.stream()>>>(n, args...);
  fk::launched("the kernel");
}
__device__ int64_t item() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }

// A thread for each row.
template <class T>
__global__ void softmax_rows(int64_t n, const T* x, int64_t x_stride, T* out, int64_t out_stride, int64_t N) {
  int64_t r = item();
  if (r >= n) return;
  const T* row = x + r * x_stride;
  double largest = float(row[0]), sum = 0;
  for (int64_t i = 1; i < N; ++i) largest = fmax(largest, double(float(row[i])));
  for (int64_t i = 0; i < N; ++i) sum += exp(float(row[i]) - largest);
  for (int64_t i = 0; i < N; ++i) out[r * out_stride + i] = T(float(exp(float(row[i]) - largest) / sum));
}

class Softmax : public fk::Softmax {
 public:
  using fk::Softmax::Softmax;

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    fk::with_float(x.dtype(), [&]<class T>(T) {
      launch(ctx, x.size(0), softmax_rows<T>, x.ptr<T>(), x.stride(0), out.ptr<T>(), out.stride(0), x.size(1));
    });
  }
};

FK_CANDIDATE(Softmax)
