// TraceScope: the body of one composition while its calls are recorded. It knows which value each piece of memory holds
// at the moment, and turns a view that a call reads into a value.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/view_relation.h"
#include "ops/node.h"

namespace fk {

// A value that no call computes: a weight, a state, or metadata of the batch.
struct TraceLeaf {
  std::string name;  // full path, or "batch.slot_mapping"
  ValueKind kind = ValueKind::kParameter;
  View view;
};

// Those of a trace. Their memory does not overlap.
class TraceLeaves {
 public:
  void add(TraceLeaf leaf);
  const TraceLeaf* at(const View& view) const;            // the one this view is a part of
  const TraceLeaf* named(const std::string& name) const;  // nullptr where there is none

 private:
  std::vector<TraceLeaf> leaves_;
  std::map<const void*, size_t> by_address_;
  std::map<std::string, size_t> by_name_;
};

class TraceScope {
 public:
  TraceScope(const Node& node, const TraceLeaves& leaves);

  const Node& node() const { return *node_; }
  GraphBody& body() { return body_; }
  const GraphValue& value(ValueId id) const { return body_.values[static_cast<size_t>(id)]; }

  // An argument of the composition; its memory must not be written unless it is `updated` in place.
  void add_argument(const std::string& name, const View& view, bool updated);

  // The value a call reads through this view, with the slice, reshape or concat that makes it. `reader` names the call
  // and its argument in errors. Throws Error where nothing has written the memory, or not as one value.
  ValueId read(const View& view, const std::string& reader);
  // A new value, which a call writes there. Throws Error where that overwrites an argument or a weight.
  ValueId write(const View& view, const std::string& writer);

  // States and other leaves that have become inputs of the body so far, in order.
  const std::vector<const TraceLeaf*>& used_leaves() const { return used_; }
  // Of such a leaf: whether the body has written it.
  bool updated(const TraceLeaf& leaf) const;

  // A full path as the body names it.
  std::string relative(const std::string& path) const;

 private:
  // A value and the memory that it was written to; later ones hide earlier ones.
  struct Written {
    ValueId value;
    View view;
    bool fixed;  // must not be overwritten
  };

  ValueId add_value(ValueKind kind, std::string name, const View& like);
  ValueId add_leaf(const TraceLeaf& leaf);
  ValueId sliced(const Written& from, const ViewBox& box, const View& view);
  // Of a view with one dimension more, which is a part of every head in rows of heads, or in some of their columns:
  // [T, H, n] of [T, H * Dh + ...].
  std::optional<ValueId> part_of_heads(const Written& from, const View& view);
  ValueId reshaped(ValueId from, const View& like);
  // `view` was written in several pieces, one after the other along its first dimension.
  ValueId joined(const View& view, const std::string& reader);
  // The same slice, reshape or concat as an earlier one is the same value.
  ValueId made_by(GraphNode node, const std::vector<int64_t>& shape, DType dtype);

  const Node* node_;
  const TraceLeaves* leaves_;
  GraphBody body_;
  std::vector<Written> written_;
  std::vector<const TraceLeaf*> used_;
};

}  // namespace fk
