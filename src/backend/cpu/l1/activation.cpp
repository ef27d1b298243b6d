// Activation on CPU: rows are split into pieces for the threads, and each function is a loop that vectorises.
#include "ops/l1/activation.h"

#include "backend/cpu/l1/activations.h"
#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

template <auto kFunction, class T>
FK_INLINE void apply(const T* x, T* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], kFunction(load(x[i])));
}

// One activation in each dtype.
struct Rows {
  void (*in_bf16)(const bf16* x, bf16* out, int64_t n);
  void (*in_f16)(const f16* x, f16* out, int64_t n);
  void (*in_f32)(const float* x, float* out, int64_t n);

  void operator()(const bf16* x, bf16* out, int64_t n) const { in_bf16(x, out, n); }
  void operator()(const f16* x, f16* out, int64_t n) const { in_f16(x, out, n); }
  void operator()(const float* x, float* out, int64_t n) const { in_f32(x, out, n); }
};

// Clones for instruction sets cannot be templates, so each pair of function and dtype has its own.
#define FK_ACTIVATION_ROWS(name, function)                                                              \
  FK_SIMD_CLONES void name##_bf16(const bf16* x, bf16* out, int64_t n) { apply<function>(x, out, n); }  \
  FK_SIMD_CLONES void name##_f16(const f16* x, f16* out, int64_t n) { apply<function>(x, out, n); }     \
  FK_SIMD_CLONES void name##_f32(const float* x, float* out, int64_t n) { apply<function>(x, out, n); } \
  const Rows name = {name##_bf16, name##_f16, name##_f32}

FK_ACTIVATION_ROWS(gelu_rows, gelu_exact);
FK_ACTIVATION_ROWS(gelu_tanh_rows, gelu_tanh);
FK_ACTIVATION_ROWS(quick_gelu_rows, gelu_quick);
FK_ACTIVATION_ROWS(relu_rows, relu);
FK_ACTIVATION_ROWS(relu2_rows, relu_squared);
FK_ACTIVATION_ROWS(sigmoid_rows, logistic_function);
FK_ACTIVATION_ROWS(silu_rows, silu);
FK_ACTIVATION_ROWS(tanh_rows, hyperbolic_tangent);

constexpr std::pair<std::string_view, const Rows*> kFunctions[] = {
    {"gelu", &gelu_rows},
    {"gelu_pytorch_tanh", &gelu_tanh_rows},
    {"quick_gelu", &quick_gelu_rows},
    {"relu", &relu_rows},
    {"relu2", &relu2_rows},
    {"sigmoid", &sigmoid_rows},
    {"silu", &silu_rows},
    {"tanh", &tanh_rows},
};

const Rows* find_rows(std::string_view function) {
  for (const auto& [name, rows] : kFunctions)
    if (name == function) return rows;
  return nullptr;
}

class ActivationLoops final : public Activation {
 public:
  explicit ActivationLoops(const Init& init) : Activation(init), rows_(find_rows(init.function)) {}

  std::string_view refuse(Args args) const override {
    if (rows_ == nullptr) return "it has no loop for this function";
    return refuse_floats({&args[0], &args[1]});
  }

  void forward(Context& ctx, View x, View out) override {
    with_float(x.dtype(), [&]<class T>(T) {
      for_row_pieces(ctx.pool, out.size(0), out.size(1), [&](int64_t r, int64_t, int64_t begin, int64_t end) {
        (*rows_)(row_of<T>(x, r) + begin, row_of<T>(out, r) + begin, end - begin);
      });
    });
  }

 private:
  const Rows* rows_;
};

FK_IMPLEMENTATION(Activation, ActivationLoops, "cpu.loops", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
