#include "ops/l1/linear.h"

#include "ops/algebra/definition.h"
#include "ops/l1/oracle_rows.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> Linear::params(const Init& init) {
  std::vector<ParamSpec> params{{"weight", {{init.out_features, init.in_features}, init.dtype}}};
  if (init.bias) params.push_back({"bias", {{init.out_features}, init.dtype}});
  for (ParamSpec& p : params) p.part_rows = init.output_sizes;
  return params;
}

OutputSpecs Linear::outputs(const Init& init, Args given) {
  DType narrow = given[0]->dtype();
  DType dtype = init.float_output && dtype_size(narrow) < 4 ? DType::kF32 : narrow;
  return {TensorSpec{{given[0]->size(0), init.out_features}, dtype}};
}

Inputs Linear::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.in_features}, w.dtype}, Generator::normal()}};
}

Cost Linear::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), N = static_cast<double>(init.out_features),
       K = static_cast<double>(init.in_features), size = static_cast<double>(dtype_size(w.dtype));
  double out_size = init.float_output ? std::max(size, 4.0) : size;
  return {.read_bytes = size * (N * K + T * K + (init.bias ? N : 0)),
          .written_bytes = out_size * T * N,
          .matrix_flops = 2 * T * N * K};
}

Tolerance Linear::tolerance(const Init& init, DType dtype) {
  return rounding_tolerance(dtype, static_cast<double>(init.in_features));
}

std::vector<Case<Linear>> Linear::cases() {
  return {
      {"one by one", {.in_features = 1, .out_features = 1}, Workload::tokens(1)},
      {"one token", {.in_features = 72, .out_features = 200}, Workload::tokens(1)},
      {"one token, odd, bias", {.in_features = 77, .out_features = 35, .bias = true}, Workload::tokens(1)},
      {"few tokens", {.in_features = 130, .out_features = 97}, Workload::tokens(5)},
      {"sixteen tokens", {.in_features = 64, .out_features = 64}, Workload::tokens(16)},
      {"odd everywhere", {.in_features = 99, .out_features = 51, .bias = true}, Workload::tokens(37)},
      {"several tiles", {.in_features = 256, .out_features = 96}, Workload::tokens(70)},
      {"long sums", {.in_features = 2100, .out_features = 33}, Workload::tokens(18)},
      {"logits", {.in_features = 64, .out_features = 130, .float_output = true}, Workload::tokens(3)},
      {"many logits", {.in_features = 48, .out_features = 81, .float_output = true}, Workload::tokens(40)},
      {"no tokens", {.in_features = 8, .out_features = 8}, Workload::tokens(0)},
  };
}

namespace {

class LinearOracle final : public Linear {
 public:
  using Linear::Linear;

  void forward(Context& ctx, View x, View out) override {
    // All tokens for one row of the weight before the next row: the row stays in the cache.
    const DenseRows inputs(x);
    ctx.pool.parallel_for(init_.out_features, 16, [&](int64_t begin, int64_t end) {
      const DenseRows rows(weight().narrow(0, begin, end - begin));
      for (int64_t n = begin; n < end; ++n) {
        double bias = init_.bias ? get(param(1), n) : 0;
        for (int64_t t = 0; t < x.size(0); ++t)
          set(out, bias + dot_of_rows(inputs.row(t), rows.row(n - begin), init_.in_features), t, n);
      }
    });
  }
};

FK_OPERATOR(Linear, LinearOracle);

void define_linear(const Linear::Init& init, Definition& d) {
  Expr x = insert_axis(d.arg("x"), 1);                   // [T, 1, K]
  Expr out = drop_axis(sum(x * d.arg("weight"), 2), 2);  // the weight is [N, K]
  d.result("out", init.bias ? out + d.arg("bias") : out);
}
FK_DEFINITION(Linear, define_linear);

}  // namespace
}  // namespace fk
