// llama_mlp, second step: float sums that vectorise, and weights read once for all tokens of a call.
#include <fastkernels/candidate.h>
#include <math.h>

class LlamaMLP : public fk::LlamaMLP {
 public:
  using fk::LlamaMLP::LlamaMLP;

  const char* refuse(fk::Args) const override {
    if (init_.weight_format[0] != '\0') return "its weights are elements, not of a weight format";
    return init_.reduce_results && init_.tp_size > 1 ? "it has no all-reduce over several ranks" : nullptr;
  }

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    int64_t tokens = x.size(0), D = init_.hidden_size, F = weight("down_proj.weight").size(1);
    float* gate_up = ctx.scratch<float>(tokens * 2 * F);
    float* active = ctx.scratch<float>(tokens * F);
    float* in = ctx.scratch<float>(tokens * D);
    fk::with_float(x.dtype(), [&]<class T>(T) {
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t i = 0; i < D; ++i) in[t * D + i] = x.row<T>(t)[i];
      product<T>(ctx, in, tokens, weight("gate_up_proj.weight"), find_weight("gate_up_proj.bias"),
                 [&](int64_t t, int64_t n, float sum) { gate_up[t * 2 * F + n] = sum; });
      ctx.parallel_for(tokens, 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          for (int64_t i = 0; i < F; ++i) {
            float g = gate_up[t * 2 * F + i];
            active[t * F + i] = g / (1 + expf(-g)) * gate_up[t * 2 * F + F + i];
          }
      });
      product<T>(ctx, active, tokens, weight("down_proj.weight"), find_weight("down_proj.bias"),
                 [&](int64_t t, int64_t n, float sum) { out.row<T>(t)[n] = T(sum); });
    });
  }

 private:
  template <class T, class Store>
  static void product(fk::Context& ctx, const float* x, int64_t tokens, const fk::View& w, const fk::OptView& bias,
                      const Store& store) {
    int64_t K = w.size(1);
    ctx.parallel_for(w.size(0), 1 + 16384 / K, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const T* row = w.row<T>(n);
        for (int64_t t = 0; t < tokens; ++t) {
          float sum = 0;
#pragma omp simd reduction(+ : sum)
          for (int64_t k = 0; k < K; ++k) sum += x[t * K + k] * float(row[k]);
          store(t, n, bias ? sum + float(bias->ptr<T>()[n]) : sum);
        }
      }
    });
  }
};

FK_CANDIDATE(LlamaMLP)
