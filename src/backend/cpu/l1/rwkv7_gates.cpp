// RWKV7Gates on CPU: head by head.
#include "ops/l1/rwkv7_gates.h"

#include <cmath>

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/vector_math.h"
#include "ops/register.h"

namespace fk {
namespace {

// One head of a token; v_gate may be nullptr.
template <class T>
struct GateHead {
  const T *w, *k, *v, *a, *v_gate, *v_first, *k_k, *k_a;
  float* decay;
  T *key, *minus_unit, *unit_times_rate, *value;
  int64_t n;
  float decay_scale, eps;
};

FK_INLINE float gate_logistic(float x) { return 1.0f / (1.0f + vexp_bounded(-x)); }

template <class T>
FK_INLINE void gate_head_body(const GateHead<T>& h) {
  float squares = lane_sum(h.n, [&](int64_t i) {
    float x = load(h.k[i]) * load(h.k_k[i]);
    return x * x;
  });
  const float scale = 1.0f / std::sqrt(squares + h.eps);
#pragma omp simd
  for (int64_t i = 0; i < h.n; ++i) {
    const float rate = gate_logistic(load(h.a[i])), key = load(h.k[i]), unit = key * load(h.k_k[i]) * scale;
    h.decay[i] = h.decay_scale * gate_logistic(load(h.w[i]));
    store(h.key[i], key * (1.0f + (rate - 1.0f) * load(h.k_a[i])));
    store(h.minus_unit[i], -unit);
    store(h.unit_times_rate[i], unit * rate);
  }
  if (h.v_gate == nullptr) return;
#pragma omp simd
  for (int64_t i = 0; i < h.n; ++i)
    store(h.value[i], load(h.v[i]) + (load(h.v_first[i]) - load(h.v[i])) * gate_logistic(load(h.v_gate[i])));
}
FK_SIMD_CLONES void gate_head(const GateHead<bf16>& h) { gate_head_body(h); }
FK_SIMD_CLONES void gate_head(const GateHead<f16>& h) { gate_head_body(h); }
FK_SIMD_CLONES void gate_head(const GateHead<float>& h) { gate_head_body(h); }

class RWKV7GatesHeads final : public RWKV7Gates {
 public:
  using RWKV7Gates::RWKV7Gates;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[2], &args[3], &args[4], &args[5], &args[7], &args[8]})
                       : why;
  }

  void forward(Context& ctx, View w, View k, View v, View a, OptView v_gate, OptView v_first, View decay, View mixed,
               OptView value) override {
    const int64_t T = k.size(0), D = init_.width(), n = init_.head_dim;
    with_float(k.dtype(), [&]<class E>(E) {
      for_rows(ctx.pool, T, 8 * D, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          for (int64_t i = 0; i < D; i += n) {
            E* out = mixed.ptr<E>() + t * D + i;
            gate_head(GateHead<E>{.w = row_of<E>(w, t) + i,
                                  .k = row_of<E>(k, t) + i,
                                  .v = row_of<E>(v, t) + i,
                                  .a = row_of<E>(a, t) + i,
                                  .v_gate = v_gate ? row_of<E>(*v_gate, t) + i : nullptr,
                                  .v_first = v_first ? row_of<E>(*v_first, t) + i : nullptr,
                                  .k_k = k_k().ptr<E>() + i,
                                  .k_a = k_a().ptr<E>() + i,
                                  .decay = row_of<float>(decay, t) + i,
                                  .key = out,
                                  .minus_unit = out + T * D,
                                  .unit_times_rate = out + 2 * T * D,
                                  .value = value ? row_of<E>(*value, t) + i : nullptr,
                                  .n = n,
                                  .decay_scale = static_cast<float>(kDecayScale),
                                  .eps = static_cast<float>(init_.eps)});
          }
      });
    });
  }
};

FK_IMPLEMENTATION(RWKV7Gates, RWKV7GatesHeads, "cpu.heads", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
