// Static split of a row range over threads: each gets one contiguous piece, so that each streams its own memory.
#pragma once

#include <cstdint>

namespace fk {

struct Range {
  int64_t begin = 0, end = 0;
};

// Part `part` of 0 .. total-1 cut into `parts` pieces whose borders are multiples of `unit`.
inline Range split_range(int64_t total, int64_t unit, int64_t part, int64_t parts) {
  int64_t units = (total + unit - 1) / unit;
  int64_t begin = units * part / parts * unit, end = units * (part + 1) / parts * unit;
  return {begin < total ? begin : total, end < total ? end : total};
}

}  // namespace fk
