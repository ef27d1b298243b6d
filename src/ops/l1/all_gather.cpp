#include "ops/l1/all_gather.h"

#include <algorithm>

#include "core/error.h"
#include "ops/register.h"

namespace fk {
namespace {

Shape gathered(const AllGather::Init& init, int64_t rows, int64_t width) {
  check_collective_dim(init.dim);
  if (init.world_size < 1 || init.output_size < 0 || (init.dim == 0 && init.output_size != 0))
    throw Error("{} ranks cannot gather {} columns with dim {}; use an output_size of 0 or more, and dim -1 with it.",
                init.world_size, init.output_size, init.dim);
  if (init.dim == 0) return {init.world_size * rows, width};
  int64_t all = init.world_size * width;
  return {rows, init.output_size > 0 ? std::min(init.output_size, all) : all};
}

}  // namespace

OutputSpecs AllGather::outputs(const Init& init, Args given) {
  return {TensorSpec{gathered(init, given[0]->size(0), given[0]->size(1)), given[0]->dtype()}};
}

Inputs AllGather::inputs(const Init&, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), w.width}, w.dtype}, Generator::normal()}};
}

Cost AllGather::cost(const Init& init, const Workload& w) {
  auto size = static_cast<double>(dtype_size(w.dtype));
  Shape out = gathered(init, w.num_tokens(), w.width);
  // Alone, columns that are dropped need not be read.
  auto written = static_cast<double>(out.numel());
  auto own = static_cast<double>(w.num_tokens() * w.width);
  return {.read_bytes = size * (init.world_size == 1 ? written : own), .written_bytes = size * written};
}

std::vector<Case<AllGather>> AllGather::cases() {
  Init rows, kept;
  rows.dim = 0;
  kept.output_size = 50;
  return {{"alone, one element", {}, Workload::rows(1, 1)},
          {"alone, odd", {}, Workload::rows(5, 77)},
          {"alone, rows", rows, Workload::rows(6, 33)},
          {"alone, without padding", kept, Workload::rows(3, 64)}};
}

namespace {

class AllGatherOracle final : public AllGather {
 public:
  using AllGather::AllGather;

  void forward(Context& ctx, View x, View out) override {
    run_all_gather(ctx, init_, init_.dim, x, out,
                   [](Context&, const View& from, const View& to) { copy_elements(from, to); });
  }
};

FK_OPERATOR(AllGather, AllGatherOracle);

}  // namespace
}  // namespace fk
