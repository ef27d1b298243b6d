#include "ops/l1/quantised_linear.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "ops/formats/format_map.h"
#include "ops/formats/weight_format.h"
#include "ops/l1/oracle_rows.h"
#include "ops/l1/rounded_activations.h"

namespace fk {
namespace {

std::vector<int64_t> rows_of_parts(const QuantisedLinearInit& init) {
  return init.output_sizes.empty() ? std::vector<int64_t>{init.out_features} : init.output_sizes;
}

// What all parts may do with the activations they share.
ActivationRounding rounding_of(const QuantisedLinearInit& init) {
  ActivationRounding all{.int8_group = 1};
  for (const std::string& name : formats_of_parts(init.weight_format, rows_of_parts(init).size())) {
    ActivationRounding one = scaled_format(name).activations();
    all.fp8 = all.fp8 || one.fp8;
    bool longer = one.int8_group == 0 || one.int8_group > all.int8_group;
    if (all.int8_group != 0 && longer) all.int8_group = one.int8_group;
  }
  return all;
}

}  // namespace

QuantisedLinear::QuantisedLinear(const Init& init) : init_(init) {
  std::vector<int64_t> rows = rows_of_parts(init);
  std::vector<std::string> formats = formats_of_parts(init.weight_format, rows.size());
  int64_t row = 0;
  size_t first = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const ScaledFormat& format = scaled_format(formats[i]);
    size_t count = format.tensors(rows[i], init.in_features).size();
    parts_.push_back({&format, row, rows[i], first, count});
    row += rows[i];
    first += count;
  }
}

std::vector<ParamSpec> QuantisedLinear::params(const Init& init) {
  std::vector<ParamSpec> params;
  std::vector<int64_t> rows = rows_of_parts(init);
  std::vector<std::string> formats = formats_of_parts(init.weight_format, rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    for (ParamSpec p : scaled_format(formats[i]).tensors(rows[i], init.in_features)) {
      if (rows.size() > 1) {
        p.name = fmt::format("{}_{}", p.name, i);
        p.part = static_cast<int64_t>(i);
      }
      params.push_back(std::move(p));
    }
  }
  if (init.bias) params.push_back({"bias", {{init.out_features}, init.dtype}, init.output_sizes});
  return params;
}

OutputSpecs QuantisedLinear::outputs(const Init& init, Args given) {
  DType narrow = given[0]->dtype();
  DType dtype = init.float_output && dtype_size(narrow) < 4 ? DType::kF32 : narrow;
  return {TensorSpec{{given[0]->size(0), init.out_features}, dtype}};
}

Inputs QuantisedLinear::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.in_features}, w.dtype}, Generator::normal()}};
}

Cost QuantisedLinear::cost(const Init& init, const Workload& w) {
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

Tolerance QuantisedLinear::tolerance(const Init& init, DType dtype) {
  Tolerance exact = rounding_tolerance(dtype, static_cast<double>(init.in_features));
  return with_usual_deviation(exact, rounding_of(init), init.in_features, init.out_features);
}

Tolerance QuantisedLinear::tolerance_on(const Init& init, DType dtype, Args given) {
  Tolerance exact = rounding_tolerance(dtype, static_cast<double>(init.in_features));
  return with_deviation_of(exact, *given[0], rounding_of(init), init.out_features);
}

void QuantisedLinear::multiply_dequantised(Context& ctx, const View& x, const View& out) const {
  const DenseRows inputs(x);
  for (const Part& part : parts_) {
    ctx.pool.parallel_for(part.rows, 16, [&](int64_t begin, int64_t end) {
      std::vector<float> row(static_cast<size_t>(init_.in_features));
      std::vector<double> wide;
      for (int64_t n = begin; n < end; ++n) {
        part.format->dequantise(tensors(part), n, row);
        double offset = init_.bias ? get(bias(), part.row + n) : 0;
        wide.assign(row.begin(), row.end());
        for (int64_t t = 0; t < x.size(0); ++t)
          set(out, offset + dot_of_rows(inputs.row(t), wide.data(), init_.in_features), t, part.row + n);
      }
    });
  }
}

}  // namespace fk
