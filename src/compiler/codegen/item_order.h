// ItemOrder: whether what the loops of a nest read has been stored, and has not been overwritten.
//
// A nest computes the items of a row one after another, and the statements of an item one after another. So a statement
// may read what an earlier one has stored for the same item; what was stored for others needs loops of its own, before
// or after these.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/codegen/c_text.h"
#include "compiler/codegen/loop_nest.h"

namespace fk {

// Thrown where a result must have a nest of its own. It can always be computed there.
struct NeedsOwnNest {};

// A read of an array, whose dimensions behind the first are those of `seen_as`.
struct ItemRead {
  std::string array;
  algebra::Extents seen_as;
  std::vector<Index> at;
  bool before_items;  // it stands before the loops over items
};

class ItemOrder {
 public:
  // The nest, with these extents of its loops, stores a result: `length` elements for each item.
  void store(const std::string& result, size_t nest, int64_t length) { stored_[result] = {nest, length}; }
  void read(size_t nest, const std::vector<int64_t>& leads, ItemRead read);
  // Instead of a result, it stores into an array that was there before.
  void overwrite(const std::string& array, size_t nest, const std::vector<int64_t>& leads, int64_t length) const;

 private:
  struct Stored {
    size_t nest;
    int64_t length;
  };
  struct Reads {
    size_t nest;
    ItemRead read;
  };
  std::map<std::string, Stored> stored_;
  std::vector<Reads> reads_;
};

}  // namespace fk
