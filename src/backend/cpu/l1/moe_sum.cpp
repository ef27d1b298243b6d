// MoeSum on CPU.
#include "ops/l1/moe_sum.h"

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

// out[i] = sum over j of weights[j] * x[j * stride + i], in blocks whose sums stay in registers or L1.
template <class T>
FK_INLINE void weighted_sum_body(const T* x, int64_t stride, const float* weights, int64_t k, T* out, int64_t n) {
  constexpr int64_t kBlock = 256;
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t count = std::min(kBlock, n - first);
    float sums[kBlock];
    for (int64_t j = 0; j < k; ++j) {
      const T* row = x + j * stride + first;
      const float weight = weights[j];
      if (j == 0) {
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) sums[i] = weight * load(row[i]);
      } else {
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) sums[i] += weight * load(row[i]);
      }
    }
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) store(out[first + i], sums[i]);
  }
}

FK_SIMD_CLONES void weighted_sum(const bf16* x, int64_t stride, const float* weights, int64_t k, bf16* out, int64_t n) {
  weighted_sum_body(x, stride, weights, k, out, n);
}
FK_SIMD_CLONES void weighted_sum(const f16* x, int64_t stride, const float* weights, int64_t k, f16* out, int64_t n) {
  weighted_sum_body(x, stride, weights, k, out, n);
}
FK_SIMD_CLONES void weighted_sum(const float* x, int64_t stride, const float* weights, int64_t k, float* out,
                                 int64_t n) {
  weighted_sum_body(x, stride, weights, k, out, n);
}

class MoeSumBlocks final : public MoeSum {
 public:
  using MoeSum::MoeSum;

  std::string_view refuse(Args args) const override {
    if (args[1]->dtype() != DType::kF32) return "topk_weights must be f32";
    if (!args[1]->rows_contiguous()) return "rows of topk_weights are not contiguous";
    return refuse_floats({&args[0], &args[2]});
  }

  void forward(Context& ctx, View x, View topk_weights, View out) override {
    with_float(x.dtype(), [&]<class T>(T) {
      for_row_pieces(ctx.pool, out.size(0), out.size(1), [&](int64_t t, int64_t, int64_t begin, int64_t end) {
        weighted_sum(row_of<T>(x, t) + begin, x.stride(1), row_of<float>(topk_weights, t), init_.top_k,
                     row_of<T>(out, t) + begin, end - begin);
      });
    });
  }
};

FK_IMPLEMENTATION(MoeSum, MoeSumBlocks, "cpu.blocks", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
