// Matrix products with AVX-512: FMA for f32, VDPBF16PS for bf16.
#include <cstring>

#include "backend/cpu/matmul/avx512.x86.h"
#include "backend/cpu/matmul/matmul_blocked.h"
#include "backend/cpu/matmul/matmul_dot.h"
#include "ops/batch_invariant.h"

namespace fk {
namespace {

using avx512::first16;
using avx512::first32;

// How a vector of each element type is read and multiplied. `broadcast` reads one k-step, of `count` elements.
struct F32 {
  using Element = float;
  using Vector = __m512;
  static constexpr int64_t kPerVector = 16, kPerStep = 1;
  FK_AVX512_INLINE static Vector load(const Element* p) { return _mm512_loadu_ps(p); }
  FK_AVX512_INLINE static Vector load_first(const Element* p, int64_t n) {
    return _mm512_maskz_loadu_ps(first16(n), p);
  }
  FK_AVX512_INLINE static Vector load_step(const void* p) { return _mm512_loadu_ps(p); }
  FK_AVX512_INLINE static Vector broadcast(const Element* p) { return _mm512_set1_ps(*p); }
  FK_AVX512_INLINE static Vector broadcast_first(const Element* p) { return _mm512_set1_ps(*p); }
  FK_AVX512_INLINE static __m512 multiply_add(__m512 sum, Vector a, Vector b) { return _mm512_fmadd_ps(a, b, sum); }
};

struct Bf16 {
  using Element = uint16_t;
  using Vector = __m512bh;
  static constexpr int64_t kPerVector = 32, kPerStep = 2;
  FK_AVX512_INLINE static Vector load(const Element* p) { return reinterpret_cast<Vector>(_mm512_loadu_si512(p)); }
  FK_AVX512_INLINE static Vector load_first(const Element* p, int64_t n) {
    return reinterpret_cast<Vector>(_mm512_maskz_loadu_epi16(first32(n), p));
  }
  FK_AVX512_INLINE static Vector load_step(const void* p) { return reinterpret_cast<Vector>(_mm512_loadu_si512(p)); }
  FK_AVX512_INLINE static Vector broadcast(const Element* p) {
    int pair;
    __builtin_memcpy(&pair, p, sizeof pair);
    return reinterpret_cast<Vector>(_mm512_set1_epi32(pair));
  }
  FK_AVX512_INLINE static Vector broadcast_first(const Element* p) {
    return reinterpret_cast<Vector>(_mm512_set1_epi32(*p));
  }
  FK_AVX512_INLINE static __m512 multiply_add(__m512 sum, Vector a, Vector b) { return _mm512_dpbf16_ps(sum, a, b); }
};

// R rows of w times M rows of x along k. Both loops are unrolled: the sums stay in registers.
template <class T, int M, int R>
FK_AVX512 void dot_rows(const DotTask& task, int64_t row, int64_t m) {
  auto* w = static_cast<const typename T::Element*>(task.w) + row * task.w_stride;
  auto* x = static_cast<const typename T::Element*>(task.x) + m * task.x_stride;
  __m512 sum[R][M];
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < M; ++i) sum[r][i] = _mm512_setzero_ps();
  int64_t k = 0;
  for (; k + T::kPerVector <= task.k; k += T::kPerVector) {
    typename T::Vector wide[R];
    for (int r = 0; r < R; ++r) wide[r] = T::load(w + r * task.w_stride + k);
    for (int i = 0; i < M; ++i) {
      typename T::Vector rows = T::load(x + i * task.x_stride + k);
      for (int r = 0; r < R; ++r) sum[r][i] = T::multiply_add(sum[r][i], wide[r], rows);
    }
  }
  if (int64_t rest = task.k - k; rest > 0) {
    for (int i = 0; i < M; ++i) {
      typename T::Vector rows = T::load_first(x + i * task.x_stride + k, rest);
      for (int r = 0; r < R; ++r)
        sum[r][i] = T::multiply_add(sum[r][i], T::load_first(w + r * task.w_stride + k, rest), rows);
    }
  }
  for (int i = 0; i < M; ++i)
    for (int r = 0; r < R; ++r) task.sums[(m + i) * kDotPiece + row + r] = _mm512_reduce_add_ps(sum[r][i]);
}

template <class T, int R>
FK_AVX512 void dot_group(const DotTask& task, int64_t row) {
  int64_t m = 0;
  for (; m + 6 < task.m; m += 4) dot_rows<T, 4, R>(task, row, m);
  switch (task.m - m) {
    case 1:
      return dot_rows<T, 1, R>(task, row, m);
    case 2:
      return dot_rows<T, 2, R>(task, row, m);
    case 3:
      return dot_rows<T, 3, R>(task, row, m);
    case 4:
      return dot_rows<T, 4, R>(task, row, m);
    case 5:
      return dot_rows<T, 5, R>(task, row, m);
    default:
      return dot_rows<T, 6, R>(task, row, m);
  }
}

template <class T>
FK_AVX512 void dot(const DotTask& task) {
  int64_t row = 0;
  // Eight rows in parallel: hardware prefetchers follow one stream per page, and a single stream does not use the full
  // memory bandwidth. With more than two rows of x there are not enough registers for that.
  if (task.m <= 2)
    for (; row + 8 <= task.rows; row += 8)
      task.m == 1 ? dot_rows<T, 1, 8>(task, row, 0) : dot_rows<T, 2, 8>(task, row, 0);
  for (; row + 4 <= task.rows; row += 4) dot_group<T, 4>(task, row);
  for (; row < task.rows; ++row) dot_group<T, 1>(task, row);
}

// 8 rows of w by 3 vectors of x: 24 of the 32 registers are sums. A panel of x is 36 KiB of the 48 KiB of L1.
constexpr int64_t kGroup = 8, kLanes = 16, kVectors = 3, kSteps = 192;

FK_AVX512 void pack(const PackTask& task, int64_t element_bytes) {
  for (int64_t i = 0; i < task.width; i += kLanes)
    avx512::pack16(static_cast<const std::byte*>(task.x) + i * task.x_stride * element_bytes,
                   task.x_stride * element_bytes, task.rows - i, task.k * element_bytes,
                   static_cast<uint32_t*>(task.panel) + i, task.width);
}

// The stride of w is a power of two, so its rows would evict each other, and x, from their cache sets.
template <class T>
void copy(const CopyTask& task) {
  std::memcpy(task.copy, task.w, static_cast<size_t>(task.k) * sizeof(typename T::Element));
}

template <class T, int V>
FK_AVX512 void multiply_panel(const PanelTask& task) {
  __m512 sum[kGroup][V];
  for (int r = 0; r < kGroup; ++r)
    for (int v = 0; v < V; ++v)
      sum[r][v] = task.first ? _mm512_setzero_ps() : _mm512_loadu_ps(task.c + r * task.c_stride + v * kLanes);
  const typename T::Element* w[kGroup];
  for (int r = 0; r < kGroup; ++r) w[r] = static_cast<const typename T::Element*>(task.w[r]);
  auto* x = static_cast<const uint32_t*>(task.panel);
  int64_t k = 0;
  for (; k + T::kPerStep <= task.k; k += T::kPerStep, x += V * kLanes) {
    typename T::Vector rows[V];
    for (int v = 0; v < V; ++v) rows[v] = T::load_step(x + v * kLanes);
    for (int r = 0; r < kGroup; ++r) {
      typename T::Vector one = T::broadcast(w[r] + k);
      for (int v = 0; v < V; ++v) sum[r][v] = T::multiply_add(sum[r][v], one, rows[v]);
    }
  }
  if (k < task.k) {
    for (int v = 0; v < V; ++v) {
      typename T::Vector rows = T::load_step(x + v * kLanes);
      for (int r = 0; r < kGroup; ++r) sum[r][v] = T::multiply_add(sum[r][v], T::broadcast_first(w[r] + k), rows);
    }
  }
  for (int r = 0; r < kGroup; ++r)
    for (int v = 0; v < V; ++v) _mm512_storeu_ps(task.c + r * task.c_stride + v * kLanes, sum[r][v]);
}

template <class T>
FK_AVX512 void multiply(const PanelTask& task) {
  switch (task.width / kLanes) {
    case 1:
      return multiply_panel<T, 1>(task);
    case 2:
      return multiply_panel<T, 2>(task);
    default:
      return multiply_panel<T, 3>(task);
  }
}

FK_AVX512 void store(const StoreTask& task) {
  auto y_bytes = static_cast<int64_t>(dtype_size(task.y_dtype)),
       bias_bytes = static_cast<int64_t>(dtype_size(task.bias_dtype));
  for (int64_t n = 0; n < task.n; n += 16) {
    __mmask16 columns = first16(task.n - n);
    const void* at = task.bias == nullptr ? nullptr : static_cast<const std::byte*>(task.bias) + n * bias_bytes;
    __m512 bias = avx512::load_bias(at, task.bias_dtype, columns);
    for (int64_t m = 0; m < task.m; m += 16)
      avx512::store16(task.c + n * task.c_stride + m, task.c_stride, bias, columns, task.m - m,
                      static_cast<std::byte*>(task.y) + (m * task.y_stride + n) * y_bytes, task.y_stride, task.y_dtype);
  }
}

// Few rows would leave most of a packed panel empty.
constexpr int64_t kDotRows = 12;

template <class T>
void run(const MatmulArgs& args, ThreadPool& pool) {
  if (args.m == 0 || args.n == 0 || args.k == 0) return matmul_portable(args, pool);
  if (args.m <= kDotRows && !batch_invariant()) return matmul_dot(args, pool, dot<T>);
  static constexpr BlockedKernel kernel{
      kLanes,      kVectors,    kGroup,
      T::kPerStep, kSteps,      [](const PackTask& task) { pack(task, sizeof(typename T::Element)); },
      copy<T>,     multiply<T>, store};
  matmul_blocked(args, pool, kernel);
}

}  // namespace

void matmul_avx512_f32(const MatmulArgs& args, ThreadPool& pool) { run<F32>(args, pool); }
void matmul_avx512_bf16(const MatmulArgs& args, ThreadPool& pool) { run<Bf16>(args, pool); }

}  // namespace fk
