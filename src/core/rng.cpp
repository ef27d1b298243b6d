#include "core/rng.h"

#include <cmath>
#include <numbers>

namespace fk {

// Box-Muller, using one number of the pair: each index needs exactly one block.
double Stream::normal(uint64_t i) const {
  PhiloxBlock b = block(i);
  double u = (static_cast<double>(b[0]) + 0.5) * 0x1p-32;
  double v = (static_cast<double>(b[1]) + 0.5) * 0x1p-32;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace fk
