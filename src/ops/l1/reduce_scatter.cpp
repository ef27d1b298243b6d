#include "ops/l1/reduce_scatter.h"

#include "core/error.h"
#include "ops/register.h"

namespace fk {
namespace {

Shape block_of(const ReduceScatter::Init& init, int64_t rows, int64_t width) {
  check_collective_dim(init.dim);
  int64_t divided = init.dim == 0 ? rows : width;
  if (init.world_size < 1 || divided % init.world_size != 0)
    throw Error("{} {} cannot be divided over {} ranks; give each the same number.", divided,
                init.dim == 0 ? "rows" : "columns", init.world_size);
  if (init.dim == 0) return {rows / init.world_size, width};
  return {rows, width / init.world_size};
}

}  // namespace

OutputSpecs ReduceScatter::outputs(const Init& init, Args given) {
  return {TensorSpec{block_of(init, given[0]->size(0), given[0]->size(1)), given[0]->dtype()}};
}

Inputs ReduceScatter::inputs(const Init&, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), w.width}, w.dtype}, Generator::normal()}};
}

Cost ReduceScatter::cost(const Init& init, const Workload& w) {
  auto size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = size * static_cast<double>(w.num_tokens() * w.width),
          .written_bytes = size * static_cast<double>(block_of(init, w.num_tokens(), w.width).numel())};
}

Tolerance ReduceScatter::tolerance(const Init& init, DType dtype) {
  return init.world_size == 1 ? Tolerance{} : rounding_tolerance(dtype, static_cast<double>(init.world_size));
}

std::vector<Case<ReduceScatter>> ReduceScatter::cases() {
  Init rows;
  rows.dim = 0;
  return {{"alone, one element", {}, Workload::rows(1, 1)},
          {"alone, odd", {}, Workload::rows(5, 77)},
          {"alone, rows", rows, Workload::rows(6, 33)}};
}

namespace {

class ReduceScatterOracle final : public ReduceScatter {
 public:
  using ReduceScatter::ReduceScatter;

  void forward(Context& ctx, View x, View out) override {
    run_reduce_scatter(ctx, init_, init_.dim, x, out,
                       [](Context&, const View& from, const View& to) { copy_elements(from, to); });
  }
};

FK_OPERATOR(ReduceScatter, ReduceScatterOracle);

}  // namespace
}  // namespace fk
