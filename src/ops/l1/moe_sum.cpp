#include "ops/l1/moe_sum.h"

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

OutputSpecs MoeSum::outputs(const Init&, Args given) {
  return {TensorSpec{{given[0]->size(0), given[0]->size(2)}, given[0]->dtype()}};
}

Inputs MoeSum::inputs(const Init& init, const Workload& w) {
  DType weights = w.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return {InputSpec{{{w.num_tokens(), init.top_k, w.width}, w.dtype}, Generator::normal()},
          InputSpec{{{w.num_tokens(), init.top_k}, weights}, Generator::uniform(0, 1)}};
}

Cost MoeSum::cost(const Init& init, const Workload& w) {
  auto pairs = static_cast<double>(w.num_tokens() * init.top_k), T = static_cast<double>(w.num_tokens()),
       D = static_cast<double>(w.width), size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = size * pairs * D + 4 * pairs, .written_bytes = size * T * D, .vector_flops = 2 * pairs * D};
}

Tolerance MoeSum::tolerance(const Init& init, DType dtype) {
  return rounding_tolerance(dtype, static_cast<double>(init.top_k));
}

std::vector<Case<MoeSum>> MoeSum::cases() {
  return {{"one element", {.top_k = 1}, Workload::rows(1, 1)},
          {"odd tail", {.top_k = 3}, Workload::rows(5, 77)},
          {"eight", {.top_k = 8}, Workload::rows(19, 256)},
          {"one wide row", {.top_k = 2}, Workload::rows(1, 40001)},
          {"no tokens", {.top_k = 2}, Workload::rows(0, 8)}};
}

namespace {

class MoeSumOracle final : public MoeSum {
 public:
  using MoeSum::MoeSum;

  void forward(Context&, View x, View topk_weights, View out) override {
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t i = 0; i < x.size(2); ++i) {
        double sum = 0;
        for (int64_t j = 0; j < init_.top_k; ++j) sum += get(topk_weights, t, j) * get(x, t, j, i);
        set(out, sum, t, i);
      }
  }
};

FK_OPERATOR(MoeSum, MoeSumOracle);

void define_moe_sum(const MoeSum::Init&, Definition& d) {
  d.result("out", drop_axis(sum(d.arg("x") * insert_axis(d.arg("topk_weights"), 2), 1), 1));
}
FK_DEFINITION(MoeSum, define_moe_sum);

}  // namespace
}  // namespace fk
