#include "ops/l1/gguf_linear.h"

#include <algorithm>

#include "core/error.h"
#include "ops/formats/format_map.h"
#include "ops/l1/rounded_activations.h"
#include "ops/register.h"

namespace fk {
namespace {

std::vector<int64_t> rows_of_parts(const GGUFLinear::Init& init) {
  return init.output_sizes.empty() ? std::vector<int64_t>{init.out_features} : init.output_sizes;
}

const WeightFormat& checked_format(const std::string& name, int64_t in_features) {
  const WeightFormat& format = weight_format(name);
  if (in_features % format.block_elements != 0)
    throw Error("A matrix in {} has blocks of {} elements, and rows of {} do not divide into them.", name,
                format.block_elements, in_features);
  return format;
}

int64_t longest_block(const std::string& formats, size_t parts) {
  int64_t longest = 0;
  for (const std::string& name : formats_of_parts(formats, parts))
    longest = std::max(longest, weight_format(name).block_elements);
  return longest;
}

}  // namespace

GGUFLinear::GGUFLinear(const Init& init) : init_(init) {
  std::vector<int64_t> rows = rows_of_parts(init);
  std::vector<std::string> formats = formats_of_parts(init.weight_format, rows.size());
  int64_t row = 0;
  for (size_t i = 0; i < rows.size(); row += rows[i++])
    parts_.push_back({&checked_format(formats[i], init.in_features), row, rows[i]});
}

std::vector<ParamSpec> GGUFLinear::params(const Init& init) {
  std::vector<ParamSpec> params;
  std::vector<int64_t> rows = rows_of_parts(init);
  std::vector<std::string> formats = formats_of_parts(init.weight_format, rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    int64_t bytes = checked_format(formats[i], init.in_features).row_bytes(init.in_features);
    ParamSpec p{rows.size() == 1 ? "weight" : fmt::format("weight_{}", i), {{rows[i], bytes}, DType::kU8}};
    p.format = formats[i];
    if (rows.size() > 1) p.part = static_cast<int64_t>(i);
    params.push_back(std::move(p));
  }
  if (init.bias) params.push_back({"bias", {{init.out_features}, init.dtype}, init.output_sizes});
  return params;
}

OutputSpecs GGUFLinear::outputs(const Init& init, Args given) {
  DType narrow = given[0]->dtype();
  DType dtype = init.float_output && dtype_size(narrow) < 4 ? DType::kF32 : narrow;
  return {TensorSpec{{given[0]->size(0), init.out_features}, dtype}};
}

Inputs GGUFLinear::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.in_features}, w.dtype}, Generator::normal()}};
}

Cost GGUFLinear::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), N = static_cast<double>(init.out_features),
       K = static_cast<double>(init.in_features), size = static_cast<double>(dtype_size(w.dtype));
  double out_size = init.float_output ? std::max(size, 4.0) : size, weights = 0;
  std::vector<int64_t> rows = rows_of_parts(init);
  std::vector<std::string> formats = formats_of_parts(init.weight_format, rows.size());
  for (size_t i = 0; i < rows.size(); ++i) weights += matrix_bytes(formats[i], rows[i], init.in_features, w.dtype);
  return {.read_bytes = weights + size * (T * K + (init.bias ? N : 0)),
          .written_bytes = out_size * T * N,
          .matrix_flops = 2 * T * N * K,
          .matrix_speedup = kInt8Speedup};
}

Tolerance GGUFLinear::tolerance(const Init& init, DType dtype) {
  Tolerance exact = rounding_tolerance(dtype, static_cast<double>(init.in_features));
  auto block = static_cast<double>(longest_block(init.weight_format, rows_of_parts(init).size()));
  return with_deviation(exact, int8_deviation(block), static_cast<double>(init.out_features));
}

Tolerance GGUFLinear::tolerance_on(const Init& init, DType dtype, Args given) {
  Tolerance exact = rounding_tolerance(dtype, static_cast<double>(init.in_features));
  int64_t block = longest_block(init.weight_format, rows_of_parts(init).size());
  return with_deviation_of(exact, *given[0], {.int8_group = block}, init.out_features);
}

std::vector<Case<GGUFLinear>> GGUFLinear::cases() {
  auto c = [](int64_t in, int64_t out, std::string format) {
    return Init{.in_features = in, .out_features = out, .weight_format = std::move(format)};
  };
  // At least 64 outputs in each: errors are allowed in proportion to the largest of them.
  std::vector<Case<GGUFLinear>> cases{
      {"one block of each row", c(32, 70, "q8_0"), Workload::tokens(1)},
      {"odd sizes, one token", c(96, 131, "q4_0"), Workload::tokens(1)},
      {"few tokens", c(160, 97, "q8_0"), Workload::tokens(3)},
      {"odd sizes, several tiles", c(224, 75, "q4_0"), Workload::tokens(37)},
      {"several tiles", c(256, 96, "q8_0"), Workload::tokens(70)},
      {"blocks of 256, one token", c(512, 77, "q4_k"), Workload::tokens(1)},
      {"blocks of 256, tiles", c(512, 67, "q4_k"), Workload::tokens(19)},
      {"groups of 16, one token", c(512, 77, "q6_k"), Workload::tokens(1)},
      {"groups of 16, tiles", c(256, 69, "q6_k"), Workload::tokens(21)},
      {"no tokens", c(32, 64, "q8_0"), Workload::tokens(0)},
  };
  Init stacked = c(256, 100, "q4_k+q6_k+q8_0");
  stacked.output_sizes = {64, 19, 17};
  stacked.bias = true;
  cases.push_back({"three formats, bias", stacked, Workload::tokens(2)});
  cases.push_back({"three formats, bias, tiles", stacked, Workload::tokens(33)});
  Init logits = c(64, 130, "q8_0");
  logits.float_output = true;
  cases.push_back({"logits", logits, Workload::tokens(3)});
  return cases;
}

namespace {

class GGUFLinearOracle final : public GGUFLinear {
 public:
  using GGUFLinear::GGUFLinear;

  void forward(Context& ctx, View x, View out) override {
    for (size_t p = 0; p < parts_.size(); ++p) {
      const Part& part = parts_[p];
      ctx.pool.parallel_for(part.rows, 16, [&](int64_t begin, int64_t end) {
        std::vector<float> row(static_cast<size_t>(init_.in_features));
        for (int64_t n = begin; n < end; ++n) {
          dequantise(*part.format, static_cast<const std::byte*>(weight(p).select(0, n).data()), init_.in_features,
                     row.data());
          double offset = init_.bias ? get(bias(), part.row + n) : 0;
          for (int64_t t = 0; t < x.size(0); ++t) set(out, offset + dot(x.select(0, t), row), t, part.row + n);
        }
      });
    }
  }

 private:
  static double dot(const View& x, const std::vector<float>& row) {
    double sum = 0;
    for (size_t k = 0; k < row.size(); ++k) sum += get(x, k) * static_cast<double>(row[k]);
    return sum;
  }
};

FK_OPERATOR(GGUFLinear, GGUFLinearOracle);

}  // namespace
}  // namespace fk
