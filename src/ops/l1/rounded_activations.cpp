#include "ops/l1/rounded_activations.h"

#include <algorithm>
#include <cmath>

#include "ops/formats/weight_format.h"

namespace fk {
namespace {

// The largest size to expect among n normal numbers, within a few percent.
double expected_largest(double n) { return 0.92 * std::sqrt(2 * std::log(n + 1)); }

// Rounding to 127 steps up to the largest of a group is off by a step / sqrt(12) on average.
double rounding_deviation(double largest_of_group) { return largest_of_group / 127 / std::sqrt(12.0); }

// A number between two powers of two has eight steps of e4m3 between them: it is off by 1/8 / sqrt(12) of the lower
// one, and is 1.53 of it on average.
constexpr double kFp8Deviation = 0.0236;

double usual_deviation(const ActivationRounding& rounding, int64_t columns) {
  double group = static_cast<double>(rounding.int8_group == 0 ? columns : rounding.int8_group);
  return rounding.fp8 ? std::max(kFp8Deviation, int8_deviation(group)) : int8_deviation(group);
}

double rounded_to_fp8(double x, double largest) {
  double scale = largest / 448;
  return scale *
         static_cast<double>(static_cast<float>(f8e4m3(static_cast<float>(std::clamp(x / scale, -448., 448.)))));
}

}  // namespace

double int8_deviation(double group) { return rounding_deviation(expected_largest(group)); }

Tolerance with_deviation(Tolerance tolerance, double deviation, double outputs) {
  constexpr double kDeviations = 6.5;
  tolerance.of_scale += kDeviations * deviation / expected_largest(outputs);
  return tolerance;
}

Tolerance with_usual_deviation(Tolerance tolerance, const ActivationRounding& rounding, int64_t columns,
                               int64_t outputs) {
  return with_deviation(tolerance, usual_deviation(rounding, columns), static_cast<double>(outputs));
}

Tolerance with_deviation_of(Tolerance tolerance, const View& x, const ActivationRounding& rounding, int64_t outputs) {
  int64_t columns = x.size(1), group = std::max<int64_t>(rounding.int8_group == 0 ? columns : rounding.int8_group, 1);
  double largest_error = 0, largest_input = 0;  // squares, of a token
  for (int64_t t = 0; t < x.size(0); ++t) {
    double error = 0, input = 0;
    for (int64_t k = 0; k < columns; k += group) {
      int64_t end = std::min(k + group, columns);
      double largest = 0, in_group = 0, int8 = 0, fp8 = 0;
      for (int64_t i = k; i < end; ++i) largest = std::max(largest, std::abs(get(x, t, i)));
      double step = largest / 127;
      for (int64_t i = k; i < end; ++i) {
        double value = get(x, t, i), off = step > 0 ? value - step * std::round(value / step) : 0;
        in_group += value * value;
        int8 += off * off;
        if (rounding.fp8 && largest > 0 && std::isfinite(largest))
          fp8 += std::pow(value - rounded_to_fp8(value, largest), 2);
      }
      // Equal numbers are all rounded in one direction, which is more than the average.
      double usual = rounding_deviation(largest);
      int8 = std::max(int8, static_cast<double>(group) * usual * usual);
      if (rounding.fp8) fp8 = std::max(fp8, kFp8Deviation * kFp8Deviation * in_group);
      input += in_group;
      error += std::max(int8, fp8);
    }
    largest_error = std::max(largest_error, error);
    largest_input = std::max(largest_input, input);
  }
  if (!(largest_input > 0) || !std::isfinite(largest_input)) return tolerance;
  return with_deviation(tolerance, std::sqrt(largest_error / largest_input), static_cast<double>(x.size(0) * outputs));
}

Tolerance with_rounded_activations(Tolerance tolerance, std::string_view weight_format, double roundings) {
  if (weight_format.empty()) return tolerance;
  // Long enough for every group that products may have: a row of a usual model.
  constexpr int64_t kLongRow = 4096;
  double deviation = int8_deviation(static_cast<double>(kMaxBlockElements));
  for (size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = weight_format.find_first_of(";=+@", begin);
    if (const ScaledFormat* format = find_scaled_format(weight_format.substr(begin, end - begin)))
      deviation = std::max(deviation, usual_deviation(format->activations(), kLongRow));
  }
  // Products have at least 64 outputs.
  return with_deviation(tolerance, roundings * deviation, 64);
}

}  // namespace fk
