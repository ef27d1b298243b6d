// Sample on CUDA: maxima and probabilities with many blocks per row, filters and sampling with one.
#include "ops/l1/sample.h"

#include <cfloat>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/packs.cuh"
#include "backend/cuda/l1/row_max.cuh"
#include "backend/cuda/l1/sample.cuh"
#include "core/rng.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kWeighThreads = 256;

// One parameter per row.
template <class T>
struct Column {
  explicit Column(const View& v) : at(v.ptr<T>()), stride(v.stride(0)) {}
  __device__ T& operator[](int64_t row) const { return at[row * stride]; }
  T* at;
  int64_t stride;
};

struct Parameters {
  Column<float> temperature;
  Column<int32_t> top_k;
  Column<float> top_p, min_p;
  Column<int64_t> seeds, steps, out;
};

// Probabilities relative to the largest, as sample.cuh expects them. A NaN counts as impossible.
template <class T, int N>
__global__ void __launch_bounds__(kWeighThreads)
    weigh(const T* logits, int64_t stride, uint32_t width, RowMaxima maxima, const __grid_constant__ Parameters given,
          float* p, int64_t p_stride, unsigned pieces) {
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x / pieces;
  const uint32_t first = (blockIdx.x % pieces * kWeighThreads + threadIdx.x) * N;
  const float temperature = given.temperature[row];
  if (temperature == 0) return;
  const float largest = max_of_row(maxima, row).largest_number;
  // A temperature too small to invert leaves the largest token at 0 and all others at -infinity.
  const float inverse = fminf(1.0f / temperature, FLT_MAX);
  const float least = fminf(given.min_p[row], 1.0f);  // the largest is 1
  float* to = p + row * p_stride;
  if (first < width) {
    constexpr int kAtOnce = N < 4 ? N : 4;
    const Pack<T, N> pack = load_pack<T, N>(logits + row * stride + first);
#pragma unroll
    for (int begin = 0; begin < N; begin += kAtOnce) {
      Pack<float, kAtOnce> relative;
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const float difference = to_float(pack.at[begin + k]) - largest;
        const float e = fminf(expf(difference * inverse), 1.0f);
        relative.at[k] = difference <= 0 && e >= least && e >= 0x1p-40f ? e : 0.0f;
      }
      store_pack<float, kAtOnce>(to + first + begin, relative);
    }
  } else if (first < (width + 3) / 4 * 4) {
    to[first] = 0;  // only where N is 1: packs fit rows whose length is a multiple of four
  }
}

__global__ void __launch_bounds__(sampling::kThreads)
    draw(const __grid_constant__ Parameters given, RowMaxima maxima, const float* p, int64_t p_stride, uint32_t width) {
  __shared__ sampling::Shared shared;
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x;
  if (given.temperature[row] == 0) {
    if (threadIdx.x >= 32) return;
    const PieceMax best = max_of_row(maxima, row);
    if (threadIdx.x == 0) given.out[row] = index_of(best.first_of_largest);
    return;
  }
  const sampling::Row tokens(p + row * p_stride, width, shared);
  uint64_t cut = sampling::kLeastKey;
  const int32_t top_k = given.top_k[row];
  const float top_p = given.top_p[row];
  const bool by_count = top_k > 0 && static_cast<uint32_t>(top_k) < width;
  if (by_count || top_p < 1) {
    sampling::Tally kept = tokens.tally_from(cut);
    if (by_count && kept.count > static_cast<uint32_t>(top_k)) {
      cut = tokens.cut_to_count(cut, kept, static_cast<uint32_t>(top_k));
      if (top_p < 1) kept = tokens.tally_from(cut);
    }
    if (top_p < 1 && kept.count > 0) {
      const double wanted = ceil(static_cast<double>(top_p) * static_cast<double>(kept.weight));
      const uint64_t weight = wanted >= 1 ? static_cast<uint64_t>(wanted) : 1;  // the largest always stays
      cut = tokens.cut_to_weight(cut, kept, weight < kept.weight ? weight : kept.weight);
    }
  }
  const auto step = static_cast<uint64_t>(given.steps[row]);
  const uint32_t token = tokens.walk(cut, Stream(static_cast<uint64_t>(given.seeds[row])).u32(step));
  if (threadIdx.x == 0) given.out[row] = token;
}

class SampleByHalving final : public Sample {
 public:
  using Sample::Sample;

  std::string_view refuse(Args args) const override {
    if (std::string_view why = refuse_call(args); !why.empty()) return why;
    // Weights of 2^40 add up in 64 bits.
    if (args[0]->size(1) < 1 || args[0]->size(1) > (1 << 23)) return "a row must have between 1 and 2^23 logits";
    return refuse_floats({&args[0]});
  }

  void forward(Context& ctx, View logits, View temperature, View top_k, View top_p, View min_p, View seeds, View steps,
               View out) override {
    int64_t rows = logits.size(0), V = logits.size(1);
    Parameters given{Column<float>(temperature), Column<int32_t>(top_k), Column<float>(top_p), Column<float>(min_p),
                     Column<int64_t>(seeds),     Column<int64_t>(steps), Column<int64_t>(out)};
    RowMaxima maxima = row_maxima(logits, ctx.arena, ctx.stream);
    int64_t p_stride = (V + 3) / 4 * 4;
    auto* p = ctx.arena.make({{rows, p_stride}, DType::kF32}).ptr<float>();
    with_packs(logits.dtype(), rows_fit_packs(logits), [&](auto type, auto n) {
      using T = typename decltype(type)::type;
      constexpr int N = decltype(n)::value;
      unsigned pieces = blocks_for(p_stride, kWeighThreads * N);
      launch("sample", weigh<T, N>, static_cast<unsigned>(rows) * pieces, kWeighThreads, 0, ctx.stream,
             static_cast<const T*>(logits.data()), logits.stride(0), static_cast<uint32_t>(V), maxima, given, p,
             p_stride, pieces);
    });
    launch("sample", draw, static_cast<unsigned>(rows), sampling::kThreads, 0, ctx.stream, given, maxima, p, p_stride,
           static_cast<uint32_t>(V));
  }
};

FK_IMPLEMENTATION(Sample, SampleByHalving, "cuda.halving", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
