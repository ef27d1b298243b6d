// MoeSum on CUDA: a thread adds up one pack of all experts' outputs.
#include "ops/l1/moe_sum.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "backend/cuda/l1/weighted_sum.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T, int N>
struct WeightedSum {
  RowsOf<const T> x;
  int64_t expert_stride;
  RowsOf<const float> weights;
  RowsOf<T> out;
  int top_k;

  __device__ void compute(int64_t row, int64_t i) const {
    const T* from = x.row(row) + i;
    const float* weight = weights.row(row);
    float sum[N] = {};
#pragma unroll 4
    for (int j = 0; j < top_k; ++j) {
      const Pack<T, N> pack = load_pack<T, N>(from + j * expert_stride);
#pragma unroll
      for (int k = 0; k < N; ++k) sum[k] = fmaf(weight[j], to_float(pack.at[k]), sum[k]);
    }
    Pack<T, N> result;
#pragma unroll
    for (int k = 0; k < N; ++k) result.at[k] = from_float<T>(sum[k]);
    store_pack<T, N>(out.row(row) + i, result);
  }
};

class MoeSumPacks final : public MoeSum {
 public:
  using MoeSum::MoeSum;

  std::string_view refuse(Args args) const override {
    if (args[1]->dtype() != DType::kF32) return "topk_weights must be f32";
    if (!args[1]->rows_contiguous()) return "rows of topk_weights must be contiguous";
    return refuse_floats({&args[0], &args[2]});
  }

  void forward(Context& ctx, View x, View topk_weights, View out) override {
    weighted_sum(x, topk_weights, out, ctx.stream);
  }
};

FK_IMPLEMENTATION(MoeSum, MoeSumPacks, "cuda.rows", DeviceKind::kCuda, 0, nullptr);

}  // namespace

void weighted_sum(const View& x, const View& weights, const View& out, void* stream) {
  with_packs(x.dtype(), rows_fit_packs(x) && rows_fit_packs(out), [&](auto type, auto n) {
    using T = typename decltype(type)::type;
    constexpr int N = decltype(n)::value;
    map_rows<N>("moe_sum",
                WeightedSum<T, N>{rows_of<const T>(x), x.stride(1), rows_of<const float>(weights), rows_of<T>(out),
                                  static_cast<int>(x.size(1))},
                out, stream);
  });
}

}  // namespace fk::cuda
