#include "ops/l1/all_to_all.h"

#include "core/error.h"
#include "ops/register.h"

namespace fk {

OutputSpecs AllToAll::outputs(const Init& init, Args given) {
  if (init.world_size < 1 || given[0]->size(0) % init.world_size != 0)
    throw Error("{} rows cannot be divided over {} ranks; give each the same number.", given[0]->size(0),
                init.world_size);
  return {given[0]->spec()};
}

Inputs AllToAll::inputs(const Init&, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), w.width}, w.dtype}, Generator::normal()}};
}

Cost AllToAll::cost(const Init&, const Workload& w) {
  double tensor = static_cast<double>(w.num_tokens() * w.width) * static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = tensor, .written_bytes = tensor};
}

std::vector<Case<AllToAll>> AllToAll::cases() {
  return {{"alone, one element", {}, Workload::rows(1, 1)}, {"alone, odd", {}, Workload::rows(5, 77)}};
}

namespace {

class AllToAllOracle final : public AllToAll {
 public:
  using AllToAll::AllToAll;

  void forward(Context& ctx, View x, View out) override {
    run_all_to_all(ctx, init_, x, out, [](Context&, const View& from, const View& to) { copy_elements(from, to); });
  }
};

FK_OPERATOR(AllToAll, AllToAllOracle);

}  // namespace
}  // namespace fk
