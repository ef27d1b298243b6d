// softmax on CUDA, third step: a long row is shared by a cluster of up to eight blocks, which keep it in registers and
// tell each other their sums through shared memory. One launch, every element read once and written once; rows need not
// begin on 16 bytes.
#include <fastkernels/candidate.h>

#include "../cuda_rows.cuh"

constexpr int kThreads = 512, kPacks = 4, kMostBlocks = 8;

__device__ __forceinline__ unsigned rank_in_cluster() {
  unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return rank;
}

__device__ __forceinline__ void sync_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  __syncthreads();
#endif
}

// What the block of that rank has at this place of its shared memory.
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

// e^(x - base), where base stands for 0 if all is minus infinity.
__device__ __forceinline__ float power(float x, float base) {
  return __expf(x - (base == __int_as_float(0xff800000) ? 0.0f : base));
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    softmax_in_cluster(const T* x, int64_t x_stride, T* out, int64_t out_stride, int64_t N, unsigned blocks) {
  using P = Pack<T>;
  constexpr int kE = P::kElements;
  const int64_t r = blockIdx.x / blocks;
  const T* row = x + r * x_stride;
  T* result = out + r * out_stride;
  // Packs lie on 16 bytes: the first of them may begin before the row, the last end behind it.
  const int64_t skew = int64_t(reinterpret_cast<uintptr_t>(row) % 16 / sizeof(T));
  const bool alike = reinterpret_cast<uintptr_t>(result) % 16 == reinterpret_cast<uintptr_t>(row) % 16;
  const float kNone = __int_as_float(0xff800000);
  float mine[kPacks][kE];
  float largest = kNone, sum = 0;
  const int64_t first = (int64_t(rank_in_cluster()) * kThreads + threadIdx.x) * kE - skew;
  const int64_t step = int64_t(blocks) * kThreads * kE;
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const int64_t i = first + j * step;
    if (i >= 0 && i + kE <= N) {
      P pack = *reinterpret_cast<const P*>(row + i);
#pragma unroll
      for (int k = 0; k < kE; ++k) mine[j][k] = float(pack.at[k]);
    } else {
#pragma unroll
      for (int k = 0; k < kE; ++k) mine[j][k] = i + k >= 0 && i + k < N ? float(row[i + k]) : kNone;
    }
#pragma unroll
    for (int k = 0; k < kE; ++k) largest = fmaxf(largest, mine[j][k]);
  }
  largest = over_block(largest, kNone, Larger());
#pragma unroll
  for (int j = 0; j < kPacks; ++j)
#pragma unroll
    for (int k = 0; k < kE; ++k) sum += mine[j][k] = power(mine[j][k], largest);
  sum = over_block(sum, 0, Add());

  __shared__ float2 told;
  if (threadIdx.x == 0) told = make_float2(largest, sum);
  sync_cluster();
  float all = kNone, total = 0;
  for (unsigned b = 0; b < blocks; ++b) all = fmaxf(all, read_of_block(&told, b).x);
  for (unsigned b = 0; b < blocks; ++b) {
    float2 other = read_of_block(&told, b);
    total += other.y * power(other.x, all);
  }
  const float scale = power(largest, all) / total;
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const int64_t i = first + j * step;
    if (alike && i >= 0 && i + kE <= N) {
      P pack;
#pragma unroll
      for (int k = 0; k < kE; ++k) pack.at[k] = mine[j][k] * scale;
      *reinterpret_cast<P*>(result + i) = pack;
    } else {
#pragma unroll
      for (int k = 0; k < kE; ++k)
        if (i + k >= 0 && i + k < N) result[i + k] = mine[j][k] * scale;
    }
  }
  sync_cluster();  // nobody leaves while others read its shared memory
}

class Softmax : public fk::Softmax {
 public:
  explicit Softmax(const Init& init) : fk::Softmax(init) {
    int device = 0, major = 0;
    fk::check(cudaGetDevice(&device), "asking for the device");
    fk::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking for the device");
    most_blocks_ = major >= 9 ? kMostBlocks : 1;
  }

  const char* refuse(fk::Args args) const override {
    return args[0].size(1) <= room(args[0], most_blocks_) ? nullptr : "its rows fit the registers of eight blocks";
  }

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    if (x.numel() == 0) return;
    unsigned blocks = 1;
    // More blocks than needed to hold a row finish it sooner, as long as there are multiprocessors left.
    while (blocks < unsigned(most_blocks_) &&
           (x.size(1) > room(x, int(blocks)) || (x.size(0) * blocks <= 64 && x.size(1) > room(x, int(blocks)) / 4)))
      blocks *= 2;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned(x.size(0)) * blocks);
    config.blockDim = dim3(kThreads);
    config.stream = ctx.stream();
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = blocks;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    config.attrs = &cluster;
    config.numAttrs = most_blocks_ > 1 ? 1 : 0;
    fk::with_float(x.dtype(), [&]<class T>(T) {
      fk::check(cudaLaunchKernelEx(&config, softmax_in_cluster<T>, static_cast<const T*>(x.ptr<T>()), x.stride(0),
                                   out.ptr<T>(), out.stride(0), x.size(1), blocks),
                "softmax_in_cluster");
    });
  }

 private:
  // Elements of a row that many blocks hold, with one pack to spare for a row that begins between packs.
  static int64_t room(const fk::View& x, int blocks) {
    int64_t pack = x.dtype() == fk::DType::kF32 ? 4 : 8;
    return (int64_t{kThreads} * kPacks * blocks - 1) * pack;
  }
  int most_blocks_ = 1;
};

FK_CANDIDATE(Softmax)
