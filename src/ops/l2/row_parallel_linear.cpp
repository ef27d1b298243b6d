#include "ops/l2/row_parallel_linear.h"

#include "ops/l1/allreduce.h"
#include "ops/l2/tensor_parallel.h"
#include "ops/register.h"

namespace fk {

Linear::Init RowParallelLinear::local(const Init& init) {
  // The partial sums of all ranks are added, so only the first rank adds the bias.
  return {.in_features = rank_share(init.input_size, init.tp_size, "input features"),
          .out_features = out_features(init),
          .bias = init.bias && init.tp_rank == 0,
          .dtype = init.dtype};
}

std::vector<Case<RowParallelLinear>> RowParallelLinear::cases() {
  return {
      {"plain", {.input_size = 48, .output_size = 80}, Workload::tokens(5)},
      {"bias added", {.input_size = 33, .output_size = 21, .bias = true}, Workload::tokens(3)},
      {"bias handed back",
       {.input_size = 33, .output_size = 21, .bias = true, .skip_bias_add = true},
       Workload::tokens(3)},
      {"a partial sum",
       {.input_size = 48, .output_size = 80, .reduce_results = false, .tp_size = 2},
       Workload::tokens(5)},
  };
}

namespace {

class ComposedRowParallelLinear final : public RowParallelLinear {
 public:
  ComposedRowParallelLinear(const Init& init, Builder& builder)
      : RowParallelLinear(init), linear_(builder, product(init), init.weight_format) {
    if (init.reduce_results && init.tp_size > 1)
      all_reduce_.emplace(builder.child<AllReduce>("all_reduce", {.world_size = init.tp_size, .rank = init.tp_rank}));
  }

  void forward(Context& ctx, View x, View out, OptView output_bias) override {
    if (all_reduce_)
      all_reduce_->into(ctx, linear_(ctx, x), out);
    else
      linear_.into(ctx, x, out);
    if (output_bias) copy_elements(param(0), *output_bias);
  }

 private:
  AnyLinear linear_;
  std::optional<Op<AllReduce>> all_reduce_;
};

FK_COMPOSITION(RowParallelLinear, ComposedRowParallelLinear);

}  // namespace
}  // namespace fk
