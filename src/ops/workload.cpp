#include "ops/workload.h"

#include <algorithm>
#include <cmath>

#include "ops/contract.h"

namespace fk {
namespace {
int64_t blocks_of(const Sequence& s, int64_t page_size) {
  return (s.query_len + s.context_len + page_size - 1) / page_size;
}
}  // namespace

double distinct_rows(double rows, double picks) {
  if (rows <= 1) return std::min(rows, picks);
  return -rows * std::expm1(picks * std::log1p(-1 / rows));  // rows (1 - (1 - 1 / rows)^picks)
}

Workload Workload::repeated(int64_t times) const {
  Workload all = *this;
  for (int64_t i = 1; i < times; ++i) all.sequences.insert(all.sequences.end(), sequences.begin(), sequences.end());
  all.picks *= times;
  all.blocks *= times;
  return all;
}

int64_t cache_blocks(const Workload& workload) {
  int64_t n = 1;
  for (const Sequence& s : workload.sequences) n += blocks_of(s, workload.page_size) + 1;
  return std::max(n, workload.blocks);
}

int64_t blocks_per_sequence(const Workload& workload) {
  int64_t most = 1;
  for (const Sequence& s : workload.sequences) most = std::max(most, blocks_of(s, workload.page_size));
  return most;
}

int64_t state_slots(const Workload& workload) { return workload.num_sequences() + 2; }

double negligible_error(const Tolerance& tolerance, DType dtype) {
  if (tolerance.relative == 0 && tolerance.of_scale == 0) return 0;
  switch (dtype) {
    case DType::kF64:
      return 0x1p-1022;
    case DType::kF32:
    case DType::kBF16:
      return 0x1p-126;
    case DType::kF16:
      return 0x1p-25;
    case DType::kF8E4M3:
      return 0x1p-10;
    case DType::kF8E5M2:
      return 0x1p-17;
    default:
      return 0;
  }
}

Tolerance rounding_tolerance(DType dtype, double terms) {
  // One rounding is off by at most half a step; a float sum of n terms by about sqrt(n) roundings of its largest part.
  double sum = dtype == DType::kF64 ? 0x1p-52 : 0x1p-23;
  return {0.51 * dtype_epsilon(dtype) + 4 * sum, 4 * sum * std::sqrt(std::max(terms, 1.0))};
}

Tolerance composed_tolerance(DType dtype, double terms) {
  Tolerance once = rounding_tolerance(dtype, terms);
  // Roundings between the parts are independent of the output's size, so they count against the largest output.
  return {once.relative + dtype_epsilon(dtype), once.of_scale * 4 + 2 * dtype_epsilon(dtype)};
}

}  // namespace fk
