// SubtreeClasses: which parts of a tree are built alike, so that what one of them calls all of them call.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "ops/node.h"

namespace fk {

class SubtreeClasses {
 public:
  explicit SubtreeClasses(const Node& root) { add(root); }

  // Equal for nodes of the same operator with the same constructor arguments, the same weights and states but for the
  // node's own path, and parts that are pairwise alike.
  int of(const Node& node) const { return classes_.at(&node); }

 private:
  int add(const Node& node);

  std::unordered_map<const Node*, int> classes_;
  std::unordered_map<std::string, std::vector<const Node*>> alike_;  // one of each class, by a text of what it is
  int next_ = 0;
};

}  // namespace fk
