// FusedKDAGate on CPU: vector loops over rows.
#include "ops/l1/fused_kda_gate.h"

#include "backend/cpu/l1/activations.h"
#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

class KDAGateRows final : public FusedKDAGate {
 public:
  using FusedKDAGate::FusedKDAGate;

  std::string_view refuse(Args args) const override {
    for (size_t i : {2, 3})
      if (args[i]->dtype() != DType::kF32 || !args[i]->rows_contiguous())
        return "g and beta must be f32 with contiguous rows";
    return refuse_floats({&args[0], &args[1]});
  }

  void forward(Context& ctx, View f, View b, View g, View beta) override {
    // softplus(x) is -log(sigmoid(-x)).
    const int64_t H = init_.num_heads, K = init_.head_dim;
    const float *log = a_log().ptr<float>(), *bias = dt_bias().ptr<float>();
    with_float(f.dtype(), [&]<class T>(T) {
      for_rows(ctx.pool, f.size(0), 16 * init_.width(), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const T *from = row_of<T>(f, t), *betas = row_of<T>(b, t);
          float *to = row_of<float>(g, t), *to_beta = row_of<float>(beta, t);
          for (int64_t h = 0; h < H; ++h) {
            const float rate = vexp(log[h]);
            for (int64_t i = h * K; i < (h + 1) * K; ++i) to[i] = rate * log_of_logistic(-load(from[i]) - bias[i]);
            to_beta[h] = logistic_function(load(betas[h]));
          }
        }
      });
    });
  }
};

FK_IMPLEMENTATION(FusedKDAGate, KDAGateRows, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
