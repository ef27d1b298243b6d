// llama_mlp, third step: fused. The activation of the gate and the product with up are computed right after the two
// sums, so that there are two loops over the weights instead of three, and no intermediate [T, 2 F]. That helps with
// few tokens, where reading weights is the limit; with many tokens the baseline is faster because it uses matrix
// instructions.
#include <fastkernels/candidate.h>

#include "../fast_exp.h"

class LlamaMLP : public fk::LlamaMLP {
 public:
  using fk::LlamaMLP::LlamaMLP;

  const char* refuse(fk::Args) const override {
    if (init_.weight_format[0] != '\0') return "its weights are elements, not of a weight format";
    return init_.reduce_results && init_.tp_size > 1 ? "it has no all-reduce over several ranks" : nullptr;
  }

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    int64_t tokens = x.size(0), D = init_.hidden_size, F = weight("down_proj.weight").size(1);
    float* in = ctx.scratch<float>(tokens * D);
    float* active = ctx.scratch<float>(tokens * F);
    fk::with_float(x.dtype(), [&]<class T>(T) {
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t i = 0; i < D; ++i) in[t * D + i] = x.row<T>(t)[i];
      fk::View gate_up = weight("gate_up_proj.weight"), down = weight("down_proj.weight");
      fk::OptView gate_up_bias = find_weight("gate_up_proj.bias"), down_bias = find_weight("down_proj.bias");
      auto added = [](const fk::OptView& bias, int64_t n) { return bias ? float(bias->ptr<T>()[n]) : 0; };

      ctx.parallel_for(F, grain(2 * D), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t t = 0; t < tokens; ++t) {
            float g = added(gate_up_bias, i), u = added(gate_up_bias, F + i);
            add_dots(in + t * D, gate_up.row<T>(i), gate_up.row<T>(F + i), D, g, u);
            active[t * F + i] = silu(g) * u;
          }
        }
      });
      ctx.parallel_for(D, grain(F), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n)
          for (int64_t t = 0; t < tokens; ++t)
            out.row<T>(t)[n] = dot(active + t * F, down.row<T>(n), F) + added(down_bias, n);
      });
    });
  }

 private:
  static int64_t grain(int64_t width) { return 1 + 65536 / width; }

  // Both sums in one loop: `a` is read once, and the two independent sums hide each other's latency.
  template <class T>
  static void add_dots(const float* a, const T* gate, const T* up, int64_t n, float& g, float& u) {
    float gates = 0, ups = 0;
#pragma omp simd reduction(+ : gates, ups)
    for (int64_t i = 0; i < n; ++i) {
      gates += a[i] * float(gate[i]);
      ups += a[i] * float(up[i]);
    }
    g += gates;
    u += ups;
  }

  template <class T>
  static float dot(const float* a, const T* b, int64_t n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += a[i] * float(b[i]);
    return sum;
  }
};

FK_CANDIDATE(LlamaMLP)
