#include "ops/l1/argmax.h"

#include <cmath>

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

OutputSpecs Argmax::outputs(const Init&, Args given) { return {TensorSpec{{given[0]->size(0)}, DType::kI64}}; }

Inputs Argmax::inputs(const Init&, const Workload& w) {
  // Near steps, so that some rows have their maximum twice and the choice of the first is tested, and others have it
  // beside a neighbour. The value and the position of the maximum cannot be known without reading the whole row.
  return {InputSpec{{{w.num_tokens(), w.width}, w.dtype}, Generator::normal_near_steps(0, 3, 0.25).or_special()}};
}

Cost Argmax::cost(const Init&, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * w.width);
  return {.read_bytes = n * static_cast<double>(dtype_size(w.dtype)),
          .written_bytes = 8 * static_cast<double>(w.num_tokens()),
          .vector_flops = n};
}

Tolerance Argmax::tolerance(const Init&, DType) { return {}; }  // an index is exact

std::vector<Case<Argmax>> Argmax::cases() {
  return {{"one element", {}, Workload::rows(1, 1)},
          {"ties", {}, Workload::rows(9, 77)},
          {"vocabulary", {}, Workload::rows(3, 5003)},
          {"wide rows", {}, Workload::rows(2, 70001)},
          {"no rows", {}, Workload::rows(0, 4)}};
}

namespace {

class ArgmaxOracle final : public Argmax {
 public:
  using Argmax::Argmax;

  void forward(Context&, View x, View out) override {
    for (int64_t t = 0; t < x.size(0); ++t) {
      int64_t best = 0;
      for (int64_t i = 0; i < x.size(1); ++i) {
        if (std::isnan(get(x, t, best))) break;
        if (!(get(x, t, i) <= get(x, t, best))) best = i;
      }
      set(out, static_cast<double>(best), t);
    }
  }
};

FK_OPERATOR(Argmax, ArgmaxOracle);

void define_argmax(const Argmax::Init&, Definition& d) {
  Expr x = d.arg("x");
  Expr hit = is_nan(x) | equal(x, largest(x, 1));  // where there is a NaN, it is the largest, and equals nothing
  Expr place = select(hit, algebra::iota(x.shape(), 1), static_cast<double>(x.size(1)));
  d.result("out", drop_axis(smallest(place, 1), 1));
}
FK_DEFINITION(Argmax, define_argmax);

}  // namespace
}  // namespace fk
