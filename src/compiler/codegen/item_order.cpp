#include "compiler/codegen/item_order.h"

#include <algorithm>

namespace fk {
namespace {

// Whether a read is of the item that is being computed, for an array with `length` elements of each item in a row.
bool is_of_item(const ItemRead& read, const std::vector<int64_t>& leads, int64_t length) {
  Index flat{0, std::vector<int64_t>(leads.size() + 1, 0)};  // the place in the row
  int64_t stride = 1, most = 1;                              // most: an upper bound of i + 1
  for (size_t d = read.seen_as.size(); d-- > 1; stride *= read.seen_as[d]) {
    if (read.seen_as[d] == 1) continue;
    const Index& at = read.at[d];
    if (!at.text.empty()) return false;
    flat.add(at, stride);
    if (at.factors.back() != 0) most = std::max(most, read.seen_as[d]);
  }
  int64_t of_item = length;
  for (size_t v = leads.size(); v-- > 1; of_item *= leads[v])
    if (leads[v] != 1 && flat.factors[v] != of_item) return false;
  if (flat.factors.back() == 1) return flat.start == 0 && most <= length;
  return flat.factors.back() == 0 && flat.start >= 0 && flat.start < length;
}

}  // namespace

void ItemOrder::read(size_t nest, const std::vector<int64_t>& leads, ItemRead read) {
  if (auto at = stored_.find(read.array); at != stored_.end() && at->second.nest == nest)
    if (read.before_items || !is_of_item(read, leads, at->second.length)) throw NeedsOwnNest();
  reads_.push_back({nest, std::move(read)});
}

void ItemOrder::overwrite(const std::string& array, size_t nest, const std::vector<int64_t>& leads,
                          int64_t length) const {
  for (const auto& [of, read] : reads_)
    if (of == nest && read.array == array && !read.before_items && !is_of_item(read, leads, length))
      throw NeedsOwnNest();
}

}  // namespace fk
