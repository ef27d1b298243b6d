#include "compiler/codegen/cuda_prelude.h"

#include <utility>

namespace fk {

const std::string_view kCudaPrelude = R"(#include <stdint.h>

namespace fk {

struct bf16 {
  uint16_t bits;

  bf16() = default;
  __device__ bf16(float x) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  __device__ bf16& operator=(float x) { return *this = bf16(x); }
  __device__ operator float() const { return __uint_as_float(static_cast<uint32_t>(bits) << 16); }
};

struct f16 {
  uint16_t bits;

  f16() = default;
  __device__ f16(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  __device__ f16& operator=(float x) { return *this = f16(x); }
  __device__ operator float() const {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
  }
};

}  // namespace fk

namespace {

// A kernel may start while the one before it still runs, and waits before it touches memory that others write.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Aligned words.
template <int kBytes>
__device__ __forceinline__ void copy_words(void* to, const void* from) {
  if constexpr (kBytes % 16 == 0)
    for (int n = 0; n < kBytes / 16; ++n) static_cast<uint4*>(to)[n] = static_cast<const uint4*>(from)[n];
  else if constexpr (kBytes == 8)
    *static_cast<uint2*>(to) = *static_cast<const uint2*>(from);
  else
    *static_cast<uint32_t*>(to) = *static_cast<const uint32_t*>(from);
}

template <class T>
__device__ __forceinline__ T shuffled(unsigned threads, T x, int distance) {
  return __shfl_xor_sync(threads, x, distance);
}
__device__ __forceinline__ bool shuffled(unsigned threads, bool x, int distance) {
  return __shfl_xor_sync(threads, static_cast<int>(x), distance) != 0;
}

template <class... P>
int launch(void (*kernel)(P...), int64_t blocks, int threads, int dependent, void* stream, P... args) {
  if (blocks == 0) return 0;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &attribute;
  config.numAttrs = dependent != 0 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, args...);
}

}  // namespace
)";

const std::string_view kCudaPacks = R"(
#define FK_LAUNCHER extern "C" __attribute__((visibility("default"))) int

namespace {

struct Array {
  void* data;
  const int64_t* sizes;
  const int64_t* strides;
};

// Neighbouring elements, as one access where the place permits it.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T at[N];
};

template <bool kAligned, class T, int N>
__device__ __forceinline__ void load(Pack<T, N>& to, const T* from) {
  if constexpr (kAligned && sizeof(to) % 4 == 0 && N > 1) {
    copy_words<sizeof(to)>(&to, from);
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k) to.at[k] = from[k];
  }
}
template <bool kAligned, class T, int N>
__device__ __forceinline__ void store(T* to, const Pack<T, N>& from) {
  if constexpr (kAligned && sizeof(from) % 4 == 0 && N > 1) {
    copy_words<sizeof(from)>(to, &from);
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k) to[k] = from.at[k];
  }
}

// What the threads of a team have found; every one of them gets the result.
template <int kTeam, class T, class F>
__device__ __forceinline__ T over_team(T x, F both) {
  const unsigned first = threadIdx.x % 32 / kTeam * kTeam;
  const unsigned threads = kTeam == 32 ? 0xffffffffu : ((1u << kTeam % 32) - 1) << first;
#pragma unroll
  for (int distance = kTeam / 2; distance > 0; distance /= 2) x = both(x, shuffled(threads, x, distance));
  return x;
}
// The same of a block. Each `kNumber` is used once in a kernel, so that no place is written twice.
template <int kNumber, int kThreads, class T, class F>
__device__ __forceinline__ T over_block(T x, T start, F both) {
  x = over_team<32>(x, both);
  if constexpr (kThreads > 32) {
    __shared__ T of_warp[32];
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    x = over_team<32>(threadIdx.x % 32 < kThreads / 32 ? of_warp[threadIdx.x % 32] : start, both);
  }
  return x;
}

}  // namespace
)";

namespace {

// A NaN stays one.
constexpr std::pair<std::string_view, std::string_view> kCudaFunctions[] = {
    {"larger", R"(template <class T>
__device__ __forceinline__ T larger(T a, T b) {
  return a > b || a != a ? a : b;
}
)"},
    {"smaller", R"(template <class T>
__device__ __forceinline__ T smaller(T a, T b) {
  return a < b || a != a ? a : b;
}
)"},
    {"magnitude", R"(template <class T>
__device__ __forceinline__ T magnitude(T a) {
  return a < 0 ? -a : a;
}
)"},
    {"exponential", R"(__device__ __forceinline__ float exponential(float x) { return expf(x); }
__device__ __forceinline__ double exponential(double x) { return exp(x); }
)"},
    {"logarithm", R"(__device__ __forceinline__ float logarithm(float x) { return logf(x); }
__device__ __forceinline__ double logarithm(double x) { return log(x); }
)"},
    {"hyperbolic_tangent", R"(__device__ __forceinline__ float hyperbolic_tangent(float x) { return tanhf(x); }
__device__ __forceinline__ double hyperbolic_tangent(double x) { return tanh(x); }
)"},
    {"error_complement", R"(__device__ __forceinline__ float error_complement(float x) { return erfcf(x); }
__device__ __forceinline__ double error_complement(double x) { return erfc(x); }
)"},
    {"sine", R"(// Quarter turns are counted in double, what is left of the angle is a float; |x| < 2^30.
__device__ __forceinline__ float turned(double x, int quarters) {
  const double turns = x * 0.63661977236758134308, whole = rint(turns);
  float s, c;
  sincospif(0.5f * static_cast<float>(turns - whole), &s, &c);
  const int quarter = static_cast<int>(static_cast<int64_t>(whole) & 3) + quarters;
  const float value = (quarter & 1) != 0 ? c : s;
  return (quarter & 2) != 0 ? -value : value;
}
__device__ __forceinline__ double sine(double x) { return turned(x, 0); }
__device__ __forceinline__ double cosine(double x) { return turned(x, 1); }
__device__ __forceinline__ float sine(float x) { return turned(x, 0); }
__device__ __forceinline__ float cosine(float x) { return turned(x, 1); }
)"},
};

}  // namespace

std::string cuda_functions_in(const std::string& kernels) {
  std::string text;
  for (const auto& [name, source] : kCudaFunctions)
    if (kernels.find(std::string(name) + "(") != kernels.npos ||
        (name == "sine" && kernels.find("cosine(") != kernels.npos))
      text += source;
  return text;
}

std::string cuda_functions() {
  std::string text;
  for (const auto& [name, source] : kCudaFunctions) text += source;
  return text;
}

}  // namespace fk
