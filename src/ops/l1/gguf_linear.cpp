#include "ops/l1/gguf_linear.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "ops/formats/format_map.h"
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

// The largest size to expect among n normal numbers, within a few percent.
double expected_largest(double n) { return 0.92 * std::sqrt(2 * std::log(n + 1)); }

// Rounding to 127 steps up to the largest of a block is off by a step / sqrt(12) on average.
double rounding_deviation(double largest_of_block) { return largest_of_block / 127 / std::sqrt(12.0); }

// `deviation`: of an output's error, as a part of the outputs' own deviation. Both are sums of many terms, so both are
// near normal: the largest output is about expected_largest() of its deviations, and no error is beyond 6.5 of its own.
// A kernel that keeps one bit less of the activations doubles the deviation and is beyond this in 1 of 1000 outputs.
Tolerance with_deviation(Tolerance tolerance, double deviation, double outputs) {
  constexpr double kDeviations = 6.5;
  tolerance.of_scale += kDeviations * deviation / expected_largest(outputs);
  return tolerance;
}

int64_t longest_block(const std::string& formats, size_t parts) {
  int64_t longest = 0;
  for (const std::string& name : formats_of_parts(formats, parts))
    longest = std::max(longest, weight_format(name).block_elements);
  return longest;
}

// Of activations that are normal numbers.
double usual_deviation(double block) { return rounding_deviation(expected_largest(block)); }

}  // namespace

GGUFLinear::Init GGUFLinear::of(const Linear::Init& linear, const std::string& weight_format) {
  return {.in_features = linear.in_features,
          .out_features = linear.out_features,
          .bias = linear.bias,
          .float_output = linear.float_output,
          .output_sizes = linear.output_sizes,
          .weight_format = weight_format,
          .dtype = linear.dtype};
}

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
  return with_deviation(exact, usual_deviation(block), static_cast<double>(init.out_features));
}

// Outliers among the activations make the steps of their blocks larger. Weights have no part in this: errors and
// outputs grow with them alike.
Tolerance GGUFLinear::tolerance_on(const Init& init, DType dtype, Args given) {
  const View& x = *given[0];
  int64_t block = longest_block(init.weight_format, rows_of_parts(init).size());
  double largest_error = 0, largest_input = 0;  // squares, of a token
  for (int64_t t = 0; t < x.size(0); ++t) {
    double error = 0, input = 0;
    for (int64_t k = 0; k < x.size(1); k += block) {
      double largest = 0, rounded = 0;
      for (int64_t i = k; i < std::min(k + block, x.size(1)); ++i) largest = std::max(largest, std::abs(get(x, t, i)));
      double step = largest / 127;
      for (int64_t i = k; i < std::min(k + block, x.size(1)); ++i) {
        double value = get(x, t, i), off = step > 0 ? value - step * std::round(value / step) : 0;
        input += value * value;
        rounded += off * off;
      }
      // Equal numbers are all rounded in one direction, which is more than the average.
      double usual = rounding_deviation(largest);
      error += std::max(rounded, static_cast<double>(block) * usual * usual);
    }
    largest_error = std::max(largest_error, error);
    largest_input = std::max(largest_input, input);
  }
  Tolerance exact = rounding_tolerance(dtype, static_cast<double>(init.in_features));
  if (!(largest_input > 0) || !std::isfinite(largest_input)) return exact;
  return with_deviation(exact, std::sqrt(largest_error / largest_input),
                        static_cast<double>(x.size(0) * init.out_features));
}

Tolerance with_rounded_activations(Tolerance tolerance, std::string_view weight_format) {
  if (weight_format.empty()) return tolerance;
  // Two products behind each other, each of at least 64 outputs, and an activation between them that can double the
  // error.
  return with_deviation(tolerance, 3 * usual_deviation(static_cast<double>(kMaxBlockElements)), 64);
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
