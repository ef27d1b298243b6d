// llama_mlp (L2), naive: correct and slow. Make it fast, then run
//   fastkernels kernels --target llama_mlp
//
// The arguments of one call, constructed with hidden_size=33, intermediate_size=77, bias=true, tp_size=1,
//   reduce_results=true, dtype=bf16:
//   x    bf16[19, 33]  input
//   out  bf16[19, 33]  output
// Its weights, by the names weight() takes:
//   gate_up_proj.weight  bf16[154, 33]
//   gate_up_proj.bias  bf16[154]
//   down_proj.weight  bf16[33, 77]
//   down_proj.bias  bf16[33]
#include <fastkernels/candidate.h>
#include <math.h>

// [tokens, N] of T into doubles and back.
template <class T>
void read_rows(fk::Context& ctx, const fk::View& from, double* to) {
  ctx.parallel_for(from.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t i = 0; i < from.size(1); ++i) to[t * from.size(1) + i] = from.row<T>(t)[i];
  });
}
template <class T>
void write_rows(fk::Context& ctx, const double* from, const fk::View& to) {
  ctx.parallel_for(to.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t i = 0; i < to.size(1); ++i) to.row<T>(t)[i] = T(from[t * to.size(1) + i]);
  });
}

// out [tokens, N] = x [tokens, K] w^T + bias, where w is [N, K] as checkpoints store it; rows of x are `stride` apart.
template <class T>
void product(fk::Context& ctx, const double* x, int64_t tokens, const fk::View& w, const fk::OptView& bias, double* out,
             int64_t stride = 0) {
  int64_t N = w.size(0), K = w.size(1);
  if (stride == 0) stride = K;
  ctx.parallel_for(N, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      for (int64_t t = 0; t < tokens; ++t) {
        double sum = bias ? double(bias->ptr<T>()[n]) : 0;
        for (int64_t k = 0; k < K; ++k) sum += x[t * stride + k] * w.row<T>(n)[k];
        out[t * N + n] = sum;
      }
  });
}

class LlamaMLP : public fk::LlamaMLP {
 public:
  using fk::LlamaMLP::LlamaMLP;

  const char* refuse(fk::Args) const override {
    if (init_.weight_format[0] != '\0') return "its weights are elements, not of a weight format";
    return init_.reduce_results && init_.tp_size > 1 ? "it has no all-reduce over several ranks" : nullptr;
  }

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    // F of this rank, from the shape of the weights.
    int64_t tokens = x.size(0), D = init_.hidden_size, F = weight("down_proj.weight").size(1);
    double* in = ctx.scratch<double>(tokens * D);
    double* gate_up = ctx.scratch<double>(tokens * 2 * F);
    fk::with_float(x.dtype(), [&]<class T>(T) {
      read_rows<T>(ctx, x, in);
      product<T>(ctx, in, tokens, weight("gate_up_proj.weight"), find_weight("gate_up_proj.bias"), gate_up);
      // The activations overwrite the gates; the row stride stays 2 F.
      ctx.parallel_for(tokens, 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          for (int64_t i = 0; i < F; ++i) {
            double* row = gate_up + t * 2 * F;
            row[i] = activate(row[i]) * row[F + i];
          }
      });
      product<T>(ctx, gate_up, tokens, weight("down_proj.weight"), find_weight("down_proj.bias"), in, 2 * F);
      write_rows<T>(ctx, in, out);
    });
  }

 private:
  static double activate(double g) { return g / (1 + exp(-g)); }
};

FK_CANDIDATE(LlamaMLP)
