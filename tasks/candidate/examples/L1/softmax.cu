// softmax on CUDA, third step: a cluster of up to eight blocks computes a row, keeps it in registers and exchanges sums
// through shared memory. One launch, every element read once and written once.
#include <fastkernels/candidate.h>

#include "../cuda_rows.cuh"

constexpr unsigned kThreads = 256, kMostBlocks = 8;

__device__ __forceinline__ unsigned rank_in_cluster() {
  unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return rank;
}

// A cluster barrier in two parts: data written before the arrival is visible after the wait.
__device__ __forceinline__ void arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_all() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  __syncthreads();
#endif
}

// The value at the same address in the shared memory of the block with that rank.
__device__ __forceinline__ float2 read_of_block(const float2* at, unsigned rank) {
#if __CUDA_ARCH__ >= 900
  unsigned local = unsigned(__cvta_generic_to_shared(at)), remote;
  float2 v;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(rank));
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(remote) : "memory");
  return v;
#else
  return *at;
#endif
}

// e^(x - base); base is 0 if all elements are minus infinity. The fast approximate instruction is accurate enough for
// 16-bit results.
__device__ __forceinline__ float power(float x, float base) {
  return __expf(x - (base == __int_as_float(0xff800000) ? 0.0f : base));
}

// Every thread has kPacks packs of the row; adjacent packs belong to adjacent threads.
template <class T, int kPacks>
__global__ void __launch_bounds__(kThreads)
    softmax_in_cluster(const T* x, int64_t x_stride, T* out, int64_t out_stride, unsigned packs, unsigned blocks) {
  using P = Pack<T>;
  __shared__ float2 told;
  const float kNone = __int_as_float(0xff800000);
  const unsigned row = blockIdx.x / blocks;
  const P* from = reinterpret_cast<const P*>(x + row * x_stride);
  P* to = reinterpret_cast<P*>(out + row * out_stride);
  const unsigned first = rank_in_cluster() * kThreads + threadIdx.x, step = blocks * kThreads;
  let_next_start();
  wait_for_previous();
  P mine[kPacks];
#pragma unroll
  for (int j = 0; j < kPacks; ++j)
    if (first + j * step < packs) mine[j] = from[first + j * step];

  float largest = kNone, sum = 0;
#pragma unroll
  for (int j = 0; j < kPacks; ++j)
#pragma unroll
    for (int k = 0; k < P::kElements; ++k)
      if (first + j * step < packs) largest = fmaxf(largest, float(mine[j].at[k]));
  largest = over_block(largest, kNone, Larger());
#pragma unroll
  for (int j = 0; j < kPacks; ++j)
#pragma unroll
    for (int k = 0; k < P::kElements; ++k)
      if (first + j * step < packs) sum += power(float(mine[j].at[k]), largest);
  sum = over_block(sum, 0, Add());

  if (threadIdx.x == 0) told = make_float2(largest, sum);
  arrive();
  wait_for_all();
  float all = kNone, total = 0;
  for (unsigned b = 0; b < blocks; ++b) all = fmaxf(all, read_of_block(&told, b).x);
  for (unsigned b = 0; b < blocks; ++b) {
    float2 other = read_of_block(&told, b);
    total += other.y * power(other.x, all);
  }
  arrive();  // has read what it needs
  const float scale = 1.0f / total;
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    if (first + j * step >= packs) continue;
#pragma unroll
    for (int k = 0; k < P::kElements; ++k) mine[j].at[k] = power(float(mine[j].at[k]), all) * scale;
    to[first + j * step] = mine[j];
  }
  wait_for_all();  // no block may exit while others read its shared memory
}

class Softmax : public fk::Softmax {
 public:
  using fk::Softmax::Softmax;

  const char* refuse(fk::Args args) const override {
    if (args[0].dtype() == fk::DType::kF32) return "it computes in bf16 and f16 only";
    if (!on_16_bytes(args[0], 2) || !on_16_bytes(args[1], 2)) return "its rows begin and end on 16 bytes";
    return packs_of(args[0]) <= kMostPacks * kThreads * most_blocks() ? nullptr
                                                                      : "its rows fit the registers of a cluster";
  }

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    if (x.numel() == 0) return;
    unsigned packs = unsigned(packs_of(x)), blocks = 1;
    // More blocks per row are faster as long as multiprocessors are free.
    while (blocks < most_blocks() &&
           (packs > kMostPacks * kThreads * blocks || (packs > kThreads * blocks && x.size(0) * blocks < 128)))
      blocks *= 2;
    unsigned per_thread = (packs + kThreads * blocks - 1) / (kThreads * blocks);
    fk::with_float(x.dtype(), [&]<class T>(T) {
      auto launch = [&](auto kernel) {
        launch_early("softmax_in_cluster", kernel, unsigned(x.size(0)) * blocks, kThreads, blocks, ctx.stream(),
                     x.ptr<T>(), x.stride(0), out.ptr<T>(), out.stride(0), packs, blocks);
      };
      if (per_thread <= 1) return launch(softmax_in_cluster<T, 1>);
      if (per_thread <= 2) return launch(softmax_in_cluster<T, 2>);
      if (per_thread <= 4) return launch(softmax_in_cluster<T, 4>);
      launch(softmax_in_cluster<T, kMostPacks>);
    });
  }

 private:
  static constexpr int kMostPacks = 8;
  static unsigned most_blocks() { return on_hopper() ? kMostBlocks : 1; }
  static int64_t packs_of(const fk::View& x) { return x.size(1) / 8; }
};

FK_CANDIDATE(Softmax)
