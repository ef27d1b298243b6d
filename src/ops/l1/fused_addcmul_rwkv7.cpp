#include "ops/l1/fused_addcmul_rwkv7.h"

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> FusedAddcmulRWKV7::params(const Init& init) {
  std::vector<ParamSpec> params;
  for (char part : init.parts) {
    Shape shape = init.flat ? Shape{init.hidden_size} : Shape{1, 1, init.hidden_size};
    params.push_back({std::string("x_") + part, {shape, init.dtype}});
  }
  return params;
}

OutputSpecs FusedAddcmulRWKV7::outputs(const Init& init, Args given) {
  return {
      TensorSpec{{static_cast<int64_t>(init.parts.size()), given[0]->size(0), init.hidden_size}, given[0]->dtype()}};
}

Inputs FusedAddcmulRWKV7::inputs(const Init& init, const Workload& w) {
  InputSpec row{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()};
  return {row, row};
}

Cost FusedAddcmulRWKV7::cost(const Init& init, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * init.hidden_size), parts = static_cast<double>(init.parts.size());
  auto size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = (2 * n + parts * static_cast<double>(init.hidden_size)) * size,
          .written_bytes = parts * n * size,
          .vector_flops = 2 * parts * n};
}

Tolerance FusedAddcmulRWKV7::tolerance(const Init&, DType dtype) { return rounding_tolerance(dtype, 2); }

std::vector<Case<FusedAddcmulRWKV7>> FusedAddcmulRWKV7::cases() {
  return {{"one element", {.hidden_size = 1, .parts = "k", .flat = true}, Workload::tokens(1)},
          {"odd tail", {.hidden_size = 77}, Workload::tokens(3)},
          {"five", {.hidden_size = 131, .parts = "rwkva"}, Workload::tokens(9)},
          {"wide", {.hidden_size = 2560}, Workload::tokens(4)},
          {"no tokens", {.hidden_size = 16}, Workload::tokens(0)}};
}

namespace {

class FusedAddcmulRWKV7Oracle final : public FusedAddcmulRWKV7 {
 public:
  using FusedAddcmulRWKV7::FusedAddcmulRWKV7;

  void forward(Context&, View x, View delta, View out) override {
    for (int64_t p = 0; p < parts(); ++p)
      for (int64_t t = 0; t < x.size(0); ++t)
        for (int64_t i = 0; i < init_.hidden_size; ++i) {
          const View& weight = param(static_cast<size_t>(p));
          double w = init_.flat ? get(weight, i) : get(weight, 0, 0, i);
          set(out, get(x, t, i) + get(delta, t, i) * w, p, t, i);
        }
  }
};

FK_OPERATOR(FusedAddcmulRWKV7, FusedAddcmulRWKV7Oracle);

void define_fused_addcmul_rwkv7(const FusedAddcmulRWKV7::Init& init, Definition& d) {
  using namespace algebra;
  const int64_t tokens = d.arg("x").size(0), parts = static_cast<int64_t>(init.parts.size());
  Expr part = iota({parts, tokens, init.hidden_size}, 0);
  auto weight = [&](int64_t p) {
    return reshape(d.arg(std::string("x_") + init.parts[static_cast<size_t>(p)]), {init.hidden_size});
  };
  Expr all = broadcast(weight(parts - 1), part.shape());
  for (int64_t p = parts - 1; p-- > 0;) all = select(equal(part, static_cast<double>(p)), weight(p), all);
  d.result("out", d.arg("x") + d.arg("delta") * all);
}
FK_DEFINITION(FusedAddcmulRWKV7, define_fused_addcmul_rwkv7);

}  // namespace
}  // namespace fk
