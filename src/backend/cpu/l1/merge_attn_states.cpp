// MergeAttnStates on CPU: two weights per head, then one pass over its elements.
#include "ops/l1/merge_attn_states.h"

#include <cmath>

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void mix_body(const T* a, float from_a, const T* b, float from_b, T* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], from_a * load(a[i]) + from_b * load(b[i]));
}
FK_SIMD_CLONES void mix(const bf16* a, float from_a, const bf16* b, float from_b, bf16* out, int64_t n) {
  mix_body(a, from_a, b, from_b, out, n);
}
FK_SIMD_CLONES void mix(const f16* a, float from_a, const f16* b, float from_b, f16* out, int64_t n) {
  mix_body(a, from_a, b, from_b, out, n);
}
FK_SIMD_CLONES void mix(const float* a, float from_a, const float* b, float from_b, float* out, int64_t n) {
  mix_body(a, from_a, b, from_b, out, n);
}

class MergeAttnStatesRows final : public MergeAttnStates {
 public:
  using MergeAttnStates::MergeAttnStates;

  std::string_view refuse(Args args) const override {
    if (args[1]->dtype() != DType::kF32 || args[3]->dtype() != DType::kF32) return "lse must be f32";
    return refuse_floats({&args[0], &args[2], &args[4]});
  }

  void forward(Context& ctx, View prefix_output, View prefix_lse, View suffix_output, View suffix_lse,
               View output) override {
    const int64_t H = init_.num_heads, n = init_.head_size;
    with_float(output.dtype(), [&]<class T>(T) {
      for_rows(ctx.pool, output.size(0), H * n, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          for (int64_t h = 0; h < H; ++h) {
            float a = lse_at(prefix_lse, h, t), b = lse_at(suffix_lse, h, t);
            const T *from_prefix = head<T>(prefix_output, t, h), *from_suffix = head<T>(suffix_output, t, h);
            T* to = head<T>(output, t, h);
            // What has no keys may hold anything, NaN as well.
            if (std::isinf(a) && std::isinf(b)) {
              for (int64_t i = 0; i < n; ++i) store(to[i], 0.0f);
            } else if (std::isinf(a)) {
              std::copy_n(from_suffix, n, to);
            } else if (std::isinf(b)) {
              std::copy_n(from_prefix, n, to);
            } else {
              float largest = std::max(a, b), from_a = std::exp(a - largest), from_b = std::exp(b - largest);
              float sum = from_a + from_b;
              mix(from_prefix, from_a / sum, from_suffix, from_b / sum, to, n);
            }
          }
      });
    });
  }

 private:
  static float lse_at(const View& lse, int64_t h, int64_t t) {
    return lse.ptr<float>()[h * lse.stride(0) + t * lse.stride(1)];
  }
  template <class T>
  static T* head(const View& v, int64_t t, int64_t h) {
    return v.ptr<T>() + t * v.stride(0) + h * v.stride(1);
  }
};

FK_IMPLEMENTATION(MergeAttnStates, MergeAttnStatesRows, "cpu.row_per_head", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
