// Attention of one query over keys whose values have another size, in double, with the logarithm of the sum of its
// exponentials: the reference of the operators of latent attention.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace fk {

struct Attended {
  std::vector<double> mean;  // zero without keys
  double lse;                // -infinity without keys
};

// key(j, i) is element i of key j, of as many as the query has; value(j, i) likewise, i < value_size.
using KeyElement = std::function<double(int64_t j, int64_t i)>;
Attended attend_with_lse(const std::vector<double>& query, int64_t num_keys, int64_t value_size, double softmax_scale,
                         const KeyElement& key, const KeyElement& value);

}  // namespace fk
