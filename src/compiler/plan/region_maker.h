// RegionMaker: which values go in and out of calls of a flat graph that are made together.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/plan/region.h"

namespace fk {

class RegionMaker {
 public:
  static constexpr size_t kNoNode = static_cast<size_t>(-1);

  explicit RegionMaker(const GraphBody& flat);

  // The region of these calls; nothing where it cannot be one.
  std::optional<Region> region_of(const std::vector<size_t>& calls) const;
  std::vector<size_t> calls_of(const Region& region) const;

  const GraphValue& value(ValueId id) const { return flat_.values[at(id)]; }
  size_t maker(ValueId id) const { return maker_[at(id)]; }  // the node; kNoNode: it is an input
  bool is_move(size_t node) const { return node != kNoNode && !flat_.nodes[node].is_call(); }
  // The value that slices and reshapes lead to.
  ValueId base(ValueId id) const;
  // Calls that read a value or a part of it; kNoNode where the body returns it.
  std::vector<size_t> calls_that_read(ValueId id) const;

  // Everything that a region's kernel follows from: its nodes, with values numbered in the order in which they appear.
  std::string structure_of(const Region& region);

 private:
  static size_t at(ValueId id) { return static_cast<size_t>(id); }
  static void add_size(std::string& text, const SymbolicSize& size);
  int call_number(const GraphNode& node);

  const GraphBody& flat_;
  std::vector<size_t> maker_;                 // by value
  std::vector<std::vector<size_t>> readers_;  // by value; kNoNode: the body returns it
  std::vector<bool> in_state_;                // by value: its memory is a state's
  std::unordered_map<std::string, int> calls_;
};

}  // namespace fk
