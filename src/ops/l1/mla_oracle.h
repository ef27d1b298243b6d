// Attention of one query over keys whose values have another size, in double, with the logarithm of the sum of its
// exponentials: the reference of the operators of latent attention.
#pragma once

#include <cstdint>
#include <vector>

namespace fk {

struct Attended {
  std::vector<double> mean;  // zero without keys
  double lse;                // -infinity without keys
};

// Rows of numbers, one after the other at this distance.
struct Rows {
  const double* first;
  int64_t stride;

  const double* row(int64_t j) const { return first + j * stride; }
};
// A key has as many elements as the query.
Attended attend_with_lse(const std::vector<double>& query, int64_t num_keys, int64_t value_size, double softmax_scale,
                         Rows keys, Rows values);

}  // namespace fk
