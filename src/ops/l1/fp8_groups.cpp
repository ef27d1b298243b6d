#include "ops/l1/fp8_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace fk {

int64_t fp8_groups(int64_t width, int64_t group_size) {
  if (group_size == 0) return 1;
  if (width % group_size != 0) throw Error("Rows of {} elements do not divide into groups of {}.", width, group_size);
  return width / group_size;
}

Workload with_whole_groups(Workload workload, int64_t group_size) {
  if (group_size > 0)
    workload.width = std::max((workload.width + group_size / 2) / group_size, int64_t{1}) * group_size;
  return workload;
}

std::array<TensorSpec, 2> fp8_group_specs(int64_t tokens, int64_t width, int64_t group_size, DType given) {
  DType narrow = given == DType::kF64 ? DType::kF64 : DType::kF8E4M3;
  return {TensorSpec{{tokens, width}, narrow}, TensorSpec{{tokens, fp8_groups(width, group_size)}, DType::kF32}};
}

void store_fp8_groups(const std::vector<double>& row, int64_t group_size, const View& q, const View& scales,
                      int64_t t) {
  auto width = static_cast<int64_t>(row.size());
  int64_t groups = fp8_groups(width, group_size), length = width / groups;
  for (int64_t g = 0; g < groups; ++g) {
    double largest = kLeastGroupSize;
    for (int64_t i = g * length; i < (g + 1) * length; ++i)
      largest = std::max(largest, std::abs(row[static_cast<size_t>(i)]));
    double scale = largest / kLargestFp8;
    set(scales, scale, t, g);
    for (int64_t i = g * length; i < (g + 1) * length; ++i)
      set(q, std::clamp(row[static_cast<size_t>(i)] / scale, -kLargestFp8, kLargestFp8), t, i);
  }
}

std::string judge_fp8_groups(const View& q, const View& scales, const View& reference_q, const View& reference_scales,
                             double error) {
  // Half a step: 1/16 of the power of two below a number, and never less than half of the smallest number.
  constexpr double kHalfSmallest = 0x1p-10, kSmallestNormal = 0x1p-6;
  int64_t length = q.size(1) / std::max<int64_t>(scales.size(1), 1);
  for (int64_t t = 0; t < q.size(0); ++t) {
    for (int64_t g = 0; g < scales.size(1); ++g) {
      double scale = get(scales, t, g), want = get(reference_scales, t, g), off = error + 1e-5;
      if (!(std::abs(scale - want) <= off * want))
        return fmt::format("the scale of group {} in row {} is {:.6g}, which should be {:.6g}", g, t, scale, want);
      for (int64_t i = g * length; i < (g + 1) * length; ++i) {
        double got = get(q, t, i), exact = get(reference_q, t, i), size = std::abs(exact) * (1 + off);
        double power = size < kSmallestNormal ? 0 : std::exp2(std::floor(std::log2(size)));
        double half_step = std::max(power / 16, kHalfSmallest);
        if (!(std::abs(got * scale - exact * want) <= want * (half_step * (1 + 1e-4) + off * size)))
          return fmt::format("element [{}, {}] is {:.6g} times its scale, which should be {:.6g}", t, i, got, exact);
      }
    }
  }
  return {};
}

}  // namespace fk
