#include "ops/l2/bitnet_mlp.h"

#include "core/error.h"
#include "ops/l1/act_quant_int8.h"
#include "ops/l1/relu2_and_mul.h"
#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

Tolerance BitNetMLP::tolerance(const Init& init, DType dtype) {
  Tolerance t = MlpBlock::tolerance(init, dtype);
  return {t.relative, 2 * t.of_scale};  // a square has twice the error of its root
}

std::vector<Case<BitNetMLP>> BitNetMLP::cases() {
  return {
      {"elements", {{.hidden_size = 33, .intermediate_size = 77}, 1e-3}, Workload::tokens(19)},
      {"ternary", {{.hidden_size = 64, .intermediate_size = 160, .weight_format = "ternary"}}, Workload::tokens(5)},
      {"ternary, odd, scales that divide",
       {{.hidden_size = 44, .intermediate_size = 84, .weight_format = "ternary_inverse"}},
       Workload::tokens(1)},
  };
}

namespace {

class ComposedBitNetMLP final : public BitNetMLP {
 public:
  ComposedBitNetMLP(const Init& init, Builder& builder)
      : BitNetMLP(init),
        gate_up_proj(builder.child<MergedColumnParallelLinear>(
            "gate_up_proj", {.input_size = init.hidden_size,
                             .output_sizes = {init.intermediate_size, init.intermediate_size},
                             .bias = init.bias,
                             .tp_size = init.tp_size,
                             .weight_format = gate_up_format(init),
                             .dtype = init.dtype})),
        act_fn(builder.child<Relu2AndMul>("act_fn", {})),
        ffn_sub_norm(builder.child<RMSNorm>(
            "ffn_sub_norm", {.hidden_size = init.intermediate_size, .eps = init.rms_norm_eps, .dtype = init.dtype})),
        down_proj(builder.child<RowParallelLinear>("down_proj",
                                                   {.input_size = init.intermediate_size,
                                                    .output_size = init.hidden_size,
                                                    .bias = init.bias,
                                                    .reduce_results = init.reduce_results,
                                                    .tp_size = init.tp_size,
                                                    .weight_format = format_of_module(init.weight_format, "down_proj"),
                                                    .dtype = init.dtype})) {
    if (init.tp_size > 1)
      throw Error("{} norms all intermediate features together, which cannot be divided over {} ranks; use tp_size 1.",
                  kClass, init.tp_size);
    if (!init.weight_format.empty()) act_quant.emplace(builder.child<ActQuantInt8>("act_quant", {}));
  }

  void forward(Context& ctx, View x, View out) override {
    View activated = act_fn(ctx, std::get<0>(gate_up_proj(ctx, rounded(ctx, x))));
    View normed = std::get<0>(ffn_sub_norm(ctx, activated, OptView()));
    down_proj.into(ctx, rounded(ctx, normed), out, OptView());
  }

 private:
  View rounded(Context& ctx, const View& x) const { return act_quant ? (*act_quant)(ctx, x) : x; }

  Op<MergedColumnParallelLinear> gate_up_proj;
  Op<Relu2AndMul> act_fn;
  Op<RMSNorm> ffn_sub_norm;
  Op<RowParallelLinear> down_proj;
  std::optional<Op<ActQuantInt8>> act_quant;
};

FK_COMPOSITION(BitNetMLP, ComposedBitNetMLP);

}  // namespace
}  // namespace fk
