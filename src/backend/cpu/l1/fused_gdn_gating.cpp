// FusedGDNGating on CPU: a few numbers a token, computed one by one.
#include "ops/l1/fused_gdn_gating.h"

#include "backend/cpu/l1/activations.h"
#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

class GDNGatingRows final : public FusedGDNGating {
 public:
  using FusedGDNGating::FusedGDNGating;

  std::string_view refuse(Args args) const override {
    for (size_t i : {1, 2})
      if (args[i]->dtype() != DType::kF32 || !args[i]->rows_contiguous())
        return "g and beta must be f32 with contiguous rows";
    return refuse_floats({&args[0]});
  }

  void forward(Context& ctx, View ba, View g, View beta) override {
    // softplus(x) is -log(sigmoid(-x)).
    const int64_t H = init_.num_v_heads;
    with_float(ba.dtype(), [&]<class T>(T) {
      const T *log = a_log().ptr<T>(), *bias = dt_bias().ptr<T>();
      for_rows(ctx.pool, ba.size(0), 32 * H, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          for (int64_t h = 0; h < H; ++h) {
            const T* from = row_of<T>(ba, t) + place_of(h);
            row_of<float>(g, t)[h] = vexp(load(log[h])) * log_of_logistic(-load(from[init_.shared()]) - load(bias[h]));
            row_of<float>(beta, t)[h] = logistic_function(load(from[0]));
          }
      });
    });
  }
};

FK_IMPLEMENTATION(FusedGDNGating, GDNGatingRows, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
