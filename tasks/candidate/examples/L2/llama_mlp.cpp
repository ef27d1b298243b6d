// llama_mlp, third step: fused for one token, which is what decoding is. The gate, its activation and the product with
// up are made where the two sums are, so that the block is two loops over the weights instead of three and the [1, 2 F]
// in between never exists. More tokens are a matter of matrix units, which the baseline has and this has not: refused.
#include <fastkernels/candidate.h>

#include "../fast_exp.h"

class LlamaMLP : public fk::LlamaMLP {
 public:
  using fk::LlamaMLP::LlamaMLP;

  const char* refuse(fk::Args args) const override {
    return args[0].size(0) == 1 ? nullptr : "it is made for one token";
  }

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    int64_t D = init_.hidden_size, F = init_.intermediate_size;
    float* in = ctx.scratch<float>(D);
    float* active = ctx.scratch<float>(F);
    fk::with_float(x.dtype(), [&]<class T>(T) {
      for (int64_t i = 0; i < D; ++i) in[i] = x.ptr<T>()[i];
      fk::View gate_up = weight("gate_up_proj.weight"), down = weight("down_proj.weight");
      fk::OptView gate_up_bias = find_weight("gate_up_proj.bias"), down_bias = find_weight("down_proj.bias");
      auto added = [](const fk::OptView& bias, int64_t n) { return bias ? float(bias->ptr<T>()[n]) : 0; };

      ctx.parallel_for(F, grain(2 * D), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          float g = added(gate_up_bias, i), u = added(gate_up_bias, F + i);
          add_dots(in, gate_up.row<T>(i), gate_up.row<T>(F + i), D, g, u);
          active[i] = silu(g) * u;
        }
      });
      ctx.parallel_for(D, grain(F), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) out.ptr<T>()[n] = dot(active, down.row<T>(n), F) + added(down_bias, n);
      });
    });
  }

 private:
  static int64_t grain(int64_t width) { return 1 + 65536 / width; }

  // Both sums in one loop: `a` is read once, and one sum's additions run while the other's wait.
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
