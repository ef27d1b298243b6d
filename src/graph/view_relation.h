// How the memory of two views is related: whether it overlaps, and whether one is a slice or a reshape of the other.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/tensor.h"

namespace fk {

// Whether an element of one lies in the memory of the other.
bool views_overlap(const View& a, const View& b);

// `part` as a box of `whole`, reshaped: first the elements from `starts` on, `lengths` in each dimension of `whole`,
// then those in the shape of `part`.
struct ViewBox {
  std::vector<int64_t> starts, lengths;

  bool is_whole(const View& whole) const;
};
// Nothing where `part` is not of that kind. Works on logical positions: `whole` may have gaps between its rows.
std::optional<ViewBox> box_of(const View& whole, const View& part);

}  // namespace fk
