// silu_and_mul on CUDA, third step: 16 bytes of gate and of up at a time, the fast exponential and division, whose
// errors are far below the rounding of bf16, and a kernel that starts while the previous one ends.
#include <fastkernels/candidate.h>

#include "../cuda_rows.cuh"

template <class T>
__global__ void silu_packs(const T* x, int64_t x_stride, T* out, int64_t out_stride, int packs, int64_t rows) {
  using P = Pack<T>;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  let_next_start();
  wait_for_previous();
  if (i >= packs) return;
  for (int64_t t = blockIdx.y; t < rows; t += gridDim.y) {
    const P* row = reinterpret_cast<const P*>(x + t * x_stride);
    P gate = row[i], up = row[packs + i];
#pragma unroll
    for (int k = 0; k < P::kElements; ++k) {
      float g = gate.at[k];
      gate.at[k] = __fdividef(g, 1 + __expf(-g)) * float(up.at[k]);
    }
    reinterpret_cast<P*>(out + t * out_stride)[i] = gate;
  }
}

class SiluAndMul : public fk::SiluAndMul {
 public:
  using fk::SiluAndMul::SiluAndMul;

  // The fast division gives 0 if its divisor is above 2^126, which happens for g below -87; in f32 this error is
  // visible.
  const char* refuse(fk::Args args) const override {
    if (args[0].dtype() == fk::DType::kF32) return "it computes in bf16 and f16 only";
    return on_16_bytes(args[0], 2) && on_16_bytes(args[1], 2) ? nullptr : "its rows begin and end on 16 bytes";
  }

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    int64_t rows = out.size(0);
    if (out.numel() == 0) return;
    fk::with_float(x.dtype(), [&]<class T>(T) {
      int packs = int(out.size(1)) / Pack<T>::kElements;
      dim3 grid(unsigned((packs + 127) / 128), unsigned(rows < 65535 ? rows : 65535));
      launch_early("silu_packs", silu_packs<T>, grid, 128, 1, ctx.stream(), x.ptr<T>(), x.stride(0), out.ptr<T>(),
                   out.stride(0), packs, rows);
    });
  }
};

FK_CANDIDATE(SiluAndMul)
