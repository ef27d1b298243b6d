// rms_norm on CUDA, third step: 16 bytes per load, the row stays in registers, so that memory is read once, and the
// kernel starts while the previous one ends.
#include <fastkernels/candidate.h>

#include "../cuda_rows.cuh"

struct Rows {
  int64_t heads, stride, head_stride;
  __device__ int64_t start(int64_t r) const { return r / heads * stride + r % heads * head_stride; }
};

// Every thread has kPacks packs of the row, blockDim.x packs apart.
template <class T, int kPacks>
__global__ void norm_in_registers(const T* x, Rows x_rows, const T* residual, int64_t residual_stride, const T* w,
                                  T* out, Rows out_rows, T* sums, int64_t sums_stride, int packs, float eps) {
  using P = Pack<T>;
  const P* row = reinterpret_cast<const P*>(x + x_rows.start(blockIdx.x));
  P mine[kPacks], weights[kPacks];
  float squares = 0;
  let_next_start();
#pragma unroll
  for (int j = 0; j < kPacks; ++j)
    if (int i = threadIdx.x + j * blockDim.x; i < packs)
      weights[j] = reinterpret_cast<const P*>(w)[i];  // no kernel writes them
  wait_for_previous();
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    int i = threadIdx.x + j * blockDim.x;
    if (i >= packs) continue;
    mine[j] = row[i];
    if (residual != nullptr) {
      P more = reinterpret_cast<const P*>(residual + blockIdx.x * residual_stride)[i];
#pragma unroll
      for (int k = 0; k < P::kElements; ++k) mine[j].at[k] = float(mine[j].at[k]) + float(more.at[k]);
      reinterpret_cast<P*>(sums + blockIdx.x * sums_stride)[i] = mine[j];
    }
#pragma unroll
    for (int k = 0; k < P::kElements; ++k) squares += float(mine[j].at[k]) * float(mine[j].at[k]);
  }
  float scale = rsqrtf(over_block(squares, 0, Add()) / float(packs * P::kElements) + eps);
  P* result = reinterpret_cast<P*>(out + out_rows.start(blockIdx.x));
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    int i = threadIdx.x + j * blockDim.x;
    if (i >= packs) continue;
#pragma unroll
    for (int k = 0; k < P::kElements; ++k) mine[j].at[k] = float(mine[j].at[k]) * scale * float(weights[j].at[k]);
    result[i] = mine[j];
  }
}

class RMSNorm : public fk::RMSNorm {
 public:
  using fk::RMSNorm::RMSNorm;

  const char* refuse(fk::Args args) const override {
    int64_t bytes = args[0].dtype() == fk::DType::kF32 ? 4 : 2;
    for (int i : {0, 1, 2, 3})
      if (args.has(i) && !on_16_bytes(args[i], bytes)) return "its rows begin and end on 16 bytes";
    return args[0].size(-1) * bytes <= 16 * kMostPacks * kMostThreads ? nullptr : "its rows have at most 64 KiB";
  }

  void forward(fk::Context& ctx, fk::View x, fk::OptView residual, fk::View out, fk::OptView residual_out) override {
    int64_t rows = x.numel() / x.size(-1);
    if (rows == 0) return;
    fk::with_float(x.dtype(), [&]<class T>(T) {
      int packs = int(x.size(-1)) / Pack<T>::kElements;
      // Two packs per thread keep several loads in flight, and the block is small enough for a fast reduction.
      int per_thread = packs <= 2 * kMostThreads ? 2 : kMostPacks;
      int threads = ((packs + per_thread - 1) / per_thread + 31) / 32 * 32;
      auto kernel = per_thread == 2 ? norm_in_registers<T, 2> : norm_in_registers<T, kMostPacks>;
      launch_early("norm_in_registers", kernel, unsigned(rows), unsigned(threads), 1, ctx.stream(), x.ptr<T>(),
                   rows_of(x), residual ? residual->ptr<T>() : nullptr, residual ? residual->stride(0) : 0,
                   weight("weight").ptr<T>(), out.ptr<T>(), rows_of(out), residual ? residual_out->ptr<T>() : nullptr,
                   residual ? residual_out->stride(0) : 0, packs, float(init_.eps));
    });
  }

 private:
  static constexpr int kMostPacks = 4, kMostThreads = 1024;
  static Rows rows_of(const fk::View& v) {
    bool heads = v.rank() == 3;
    return {heads ? v.size(1) : 1, v.stride(0), heads ? v.stride(1) : 0};
  }
};

FK_CANDIDATE(RMSNorm)
