#include "ops/l1/per_head_linear.h"

#include "core/error.h"
#include "ops/algebra/pieces.h"
#include "ops/formats/weight_format.h"
#include "ops/l1/oracle_rows.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk {

PerHeadLinear::PerHeadLinear(const Init& init)
    : init_(init), format_(init.weight_format.empty() ? nullptr : &scaled_format(init.weight_format)) {}

std::vector<ParamSpec> PerHeadLinear::params(const Init& init) {
  if (init.first_row < 0 || init.first_row + rows(init) > init.rows_per_head)
    throw Error("Rows {} to {} of a head cannot be part of its {}; choose a larger rows_per_head.", init.first_row,
                init.first_row + rows(init) - 1, init.rows_per_head);
  int64_t all = init.num_heads * init.rows_per_head;
  if (!init.weight_format.empty()) return scaled_format(init.weight_format).tensors(all, columns(init));
  return {{"weight", {{all, columns(init)}, init.dtype}}};
}

OutputSpecs PerHeadLinear::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[0]->size(0), init.num_heads, init.out_features}, given[0]->dtype()}};
}

Inputs PerHeadLinear::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.num_heads, init.in_features}, w.dtype}, Generator::normal()}};
}

Cost PerHeadLinear::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), H = static_cast<double>(init.num_heads),
       K = static_cast<double>(init.in_features), N = static_cast<double>(init.out_features),
       size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes =
              matrix_bytes(init.weight_format, init.num_heads * rows(init), columns(init), w.dtype) + size * T * H * K,
          .written_bytes = size * T * H * N,
          .matrix_flops = 2 * T * H * N * K,
          .matrix_speedup = init.weight_format.empty() ? 1 : kInt8Speedup};
}

Tolerance PerHeadLinear::tolerance(const Init& init, DType dtype) {
  auto terms = static_cast<double>(init.in_features);
  // Elements of a format may be rounded to dtype before they are multiplied.
  return init.weight_format.empty() ? rounding_tolerance(dtype, terms) : composed_tolerance(dtype, terms);
}

std::vector<Case<PerHeadLinear>> PerHeadLinear::cases() {
  Init keys{.num_heads = 3, .in_features = 20, .out_features = 33, .rows_per_head = 47, .transposed = true};
  Init values{.num_heads = 3, .in_features = 33, .out_features = 27, .rows_per_head = 47, .first_row = 20};
  Init published{.num_heads = 4, .in_features = 128, .out_features = 512, .rows_per_head = 256, .transposed = true};
  Init published_values{
      .num_heads = 4, .in_features = 512, .out_features = 128, .rows_per_head = 256, .first_row = 128};
  // Multiples of 8 and of nothing larger.
  Init eights{.num_heads = 3, .in_features = 72, .out_features = 1000, .rows_per_head = 80, .transposed = true};
  Init eights_values{.num_heads = 3, .in_features = 568, .out_features = 40, .rows_per_head = 56, .first_row = 8};
  Init fp8 = published, fp8_values = published_values, fp8_odd = values;
  fp8.weight_format = fp8_values.weight_format = fp8_odd.weight_format = "fp8_block";
  return {
      {"smallest", {.num_heads = 1, .in_features = 1, .out_features = 1, .rows_per_head = 1}, Workload::tokens(1)},
      {"rows of the input, odd", keys, Workload::tokens(5)},
      {"rows of the output, odd", values, Workload::tokens(5)},
      {"one token", keys, Workload::tokens(1)},
      {"many tokens", keys, Workload::tokens(70)},
      {"many tokens, rows of the output", values, Workload::tokens(70)},
      {"as published", published, Workload::tokens(3)},
      {"as published, rows of the output", published_values, Workload::tokens(3)},
      {"as published, one token", published, Workload::tokens(1)},
      {"as published, rows of the output, one token", published_values, Workload::tokens(1)},
      {"multiples of 8, one token", eights, Workload::tokens(1)},
      {"multiples of 8, eight tokens", eights, Workload::tokens(8)},
      {"multiples of 8, rows of the output, one token", eights_values, Workload::tokens(1)},
      {"multiples of 8, rows of the output, eight tokens", eights_values, Workload::tokens(8)},
      {"as published, many tokens", published, Workload::tokens(37)},
      {"as published, rows of the output, many tokens", published_values, Workload::tokens(37)},
      {"fp8", fp8, Workload::tokens(3)},
      {"fp8, rows of the output", fp8_values, Workload::tokens(20)},
      {"fp8, heads across blocks", fp8_odd, Workload::tokens(2)},
      {"no tokens", keys, Workload::tokens(0)},
  };
}

std::string_view PerHeadLinear::refuse_call(Args args) const {
  if (init_.weight_format.empty() && args[0]->dtype() != init_.dtype) return "x must have the dtype of the weight";
  return refuse_rows({&args[0], &args[1]});
}

void PerHeadLinear::read_row(int64_t head, int64_t i, std::span<float> values) const {
  int64_t row = head * init_.rows_per_head + init_.first_row + i;
  if (format_ != nullptr) {
    const View tensors[] = {param(0), param(1)};
    return format_->dequantise(tensors, row, values);
  }
  for (size_t k = 0; k < values.size(); ++k)
    values[k] = static_cast<float>(get(weight(), row, static_cast<int64_t>(k)));
}

namespace {

class PerHeadLinearOracle final : public PerHeadLinear {
 public:
  using PerHeadLinear::PerHeadLinear;

  void forward(Context& ctx, View x, View out) override {
    int64_t T = x.size(0), R = rows(init_), C = columns(init_);
    ctx.pool.parallel_for(init_.num_heads, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> narrow(static_cast<size_t>(C));
      std::vector<double> sums(static_cast<size_t>(T * init_.out_features));
      for (int64_t h = begin; h < end; ++h) {
        std::fill(sums.begin(), sums.end(), 0.0);
        std::vector<double> inputs;
        for (int64_t t = 0; t < T; ++t) append_row(x.select(0, t).select(0, h), inputs);
        for (int64_t i = 0; i < R; ++i) {
          std::vector<double> row;
          if (format_ != nullptr) {
            read_row(h, i, narrow);
            row.assign(narrow.begin(), narrow.end());
          } else {
            append_row(weight().select(0, h * init_.rows_per_head + init_.first_row + i), row);
          }
          for (int64_t t = 0; t < T; ++t) {
            const double* in = inputs.data() + t * init_.in_features;
            double* out_row = sums.data() + t * init_.out_features;
            for (int64_t c = 0; c < C; ++c) {
              int64_t n = init_.transposed ? c : i, k = init_.transposed ? i : c;
              out_row[n] += row[static_cast<size_t>(c)] * in[k];
            }
          }
        }
        for (int64_t t = 0; t < T; ++t)
          for (int64_t n = 0; n < init_.out_features; ++n)
            set(out, sums[static_cast<size_t>(t * init_.out_features + n)], t, h, n);
      }
    });
  }
};

FK_OPERATOR(PerHeadLinear, PerHeadLinearOracle);

void define_per_head_linear(const PerHeadLinear::Init& init, Definition& d) {
  if (!init.weight_format.empty()) return d.leave_opaque("its weights are quantised");
  Expr stacked = reshape(d.arg("weight"), {init.num_heads, init.rows_per_head, PerHeadLinear::columns(init)});
  Expr weight = slice(stacked, 1, init.first_row, PerHeadLinear::rows(init));  // [H, rows, columns]
  if (init.transposed) weight = transpose(weight, 1, 2);
  Expr products = insert_axis(d.arg("x"), 2) * insert_axis(weight, 0);  // [T, H, out, in]
  d.result("out", drop_axis(sum(products, 3), 3));
}
FK_DEFINITION(PerHeadLinear, define_per_head_linear);

}  // namespace
}  // namespace fk
