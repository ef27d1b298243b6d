#include "ops/l2/siglip_mlp.h"

#include "ops/l1/activation.h"
#include "ops/l2/column_parallel_linear.h"
#include "ops/l2/row_parallel_linear.h"
#include "ops/register.h"

namespace fk {

OutputSpecs SiglipMLP::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs SiglipMLP::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()}};
}

Cost SiglipMLP::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size),
       F = static_cast<double>(init.intermediate_size);
  auto size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = size * (2 * D * F + D + F + T * D),
          .written_bytes = size * T * D,
          .matrix_flops = 4 * T * D * F,
          .vector_flops = T * F};
}

Tolerance SiglipMLP::tolerance(const Init& init, DType dtype) {
  return composed_tolerance(dtype, static_cast<double>(init.intermediate_size));
}

std::vector<Case<SiglipMLP>> SiglipMLP::cases() {
  return {{"one token", {.hidden_size = 64, .intermediate_size = 160}, Workload::tokens(1)},
          {"many tokens", {.hidden_size = 64, .intermediate_size = 136}, Workload::tokens(200)},
          {"odd", {.hidden_size = 33, .intermediate_size = 77}, Workload::tokens(19)},
          {"with erf", {.hidden_size = 48, .intermediate_size = 96, .hidden_act = "gelu"}, Workload::tokens(3)}};
}

namespace {

class ComposedSiglipMLP final : public SiglipMLP {
 public:
  ComposedSiglipMLP(const Init& c, Builder& builder)
      : SiglipMLP(c),
        fc1(builder.child<ColumnParallelLinear>(
            "fc1", {.input_size = c.hidden_size, .output_size = c.intermediate_size, .bias = true, .dtype = c.dtype})),
        activation(builder.child<Activation>("activation_fn", {.function = c.hidden_act})),
        fc2(builder.child<RowParallelLinear>(
            "fc2", {.input_size = c.intermediate_size, .output_size = c.hidden_size, .bias = true, .dtype = c.dtype})) {
  }

  void forward(Context& ctx, View x, View out) override {
    fc2.into(ctx, activation(ctx, std::get<0>(fc1(ctx, x))), out, OptView());
  }

 private:
  Op<ColumnParallelLinear> fc1;
  Op<Activation> activation;
  Op<RowParallelLinear> fc2;
};

FK_COMPOSITION(SiglipMLP, ComposedSiglipMLP);

}  // namespace
}  // namespace fk
