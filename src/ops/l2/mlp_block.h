// The common part of the feed-forward blocks of all families: gate and up in one product, activation, down.
#pragma once

#include "ops/formats/format_map.h"
#include "ops/formats/weight_format.h"
#include "ops/l2/merged_column_parallel_linear.h"
#include "ops/l2/row_parallel_linear.h"
#include "ops/l2/tensor_parallel.h"
#include "ops/op.h"

namespace fk {

struct MlpBlockInit {
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  bool bias = false;
  int64_t tp_size = 1;         // ranks the intermediate size is divided over
  int64_t tp_rank = 0;         // which of them this is
  bool reduce_results = true;  // add up the ranks' outputs; else each keeps its part
  // Of its matrices, by module (ops/formats/format_map.h); empty: elements of dtype.
  std::string weight_format = {};
  DType dtype = DType::kBF16;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("hidden_size", hidden_size);
    v("intermediate_size", intermediate_size);
    v("bias", bias);
    v("tp_size", tp_size);
    v("tp_rank", tp_rank);
    v("reduce_results", reduce_results);
    v("weight_format", weight_format);
    v("dtype", dtype);
  }
};

class MlpBlock : public Operator {
 public:
  static constexpr int kLevel = 2;
  using Init = MlpBlockInit;

  // x [T, D] -> out [T, D].
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit MlpBlock(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init&, Args given) { return {given[0]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& w) {
    return {InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()}};
  }
  static Cost cost(const Init& init, const Workload& w) {
    auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size),
         F = static_cast<double>(rank_share(init.intermediate_size, init.tp_size, "intermediate features"));
    auto size = static_cast<double>(dtype_size(w.dtype));
    auto features = static_cast<int64_t>(F);
    double weights =
        matrix_bytes(format_of_module(init.weight_format, "down_proj"), init.hidden_size, features, w.dtype);
    for (const std::string& format : formats_of_parts(gate_up_format(init), 2))
      weights += matrix_bytes(format, features, init.hidden_size, w.dtype);
    return {.read_bytes = weights + size * T * D,
            .written_bytes = size * T * D,
            .matrix_flops = 6 * T * D * F,
            .vector_flops = 5 * T * F,
            .matrix_speedup = init.weight_format.empty() ? 1 : kInt8Speedup};
  }
  static Tolerance tolerance(const Init& init, DType dtype) {
    return with_rounded_activations(composed_tolerance(dtype, static_cast<double>(init.intermediate_size)),
                                    init.weight_format);
  }
  static std::string gate_up_format(const Init& init) {
    return format_of_modules(init.weight_format, {"gate_proj", "up_proj"});
  }

 protected:
  const Init init_;
};

template <class T, class Activation>
class ComposedMlpBlock : public T {
 public:
  ComposedMlpBlock(const MlpBlockInit& init, Builder& builder, const typename Activation::Init& activation)
      : T(init),
        gate_up_proj(builder.child<MergedColumnParallelLinear>(
            "gate_up_proj", {.input_size = init.hidden_size,
                             .output_sizes = {init.intermediate_size, init.intermediate_size},
                             .bias = init.bias,
                             .tp_size = init.tp_size,
                             .tp_rank = init.tp_rank,
                             .weight_format = MlpBlock::gate_up_format(init),
                             .dtype = init.dtype})),
        down_proj(builder.child<RowParallelLinear>("down_proj",
                                                   {.input_size = init.intermediate_size,
                                                    .output_size = init.hidden_size,
                                                    .bias = init.bias,
                                                    .reduce_results = init.reduce_results,
                                                    .tp_size = init.tp_size,
                                                    .tp_rank = init.tp_rank,
                                                    .weight_format = format_of_module(init.weight_format, "down_proj"),
                                                    .dtype = init.dtype})),
        act_fn(builder.child<Activation>("act_fn", activation)) {}

  void forward(Context& ctx, View x, View out) override {
    View gate_up = std::get<0>(gate_up_proj(ctx, x));
    down_proj.into(ctx, act_fn(ctx, gate_up), out, OptView());
  }

 private:
  Op<MergedColumnParallelLinear> gate_up_proj;
  Op<RowParallelLinear> down_proj;
  Op<Activation> act_fn;
};

}  // namespace fk
