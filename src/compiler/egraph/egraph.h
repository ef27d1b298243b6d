// EGraph: many equal expressions at once. A class is a set of equal expressions; a node is a primitive whose inputs are
// classes. Equal nodes are stored once, so that classes with equal inputs become equal by themselves.
//
// Deterministic: classes and nodes are numbered in the order they are added, the lower number stays when two classes
// are united, and nothing iterates over a hash table.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "compiler/egraph/facts.h"
#include "ops/algebra/expr.h"

namespace fk {

using ClassId = int32_t;
using NodeId = int32_t;
using HeadId = int32_t;

class EGraph {
 public:
  struct Node {
    HeadId head;
    std::vector<ClassId> inputs;  // canonical after rebuild()
    ClassId of;                   // the class it was added to: use class_of()
    bool alive = true;            // false: an equal node stays in its place

    friend bool operator==(const Node& a, const Node& b) { return a.head == b.head && a.inputs == b.inputs; }
  };

  // Throws Error where the inputs do not fit the primitive, or a fact contradicts another.
  ClassId add(algebra::Head head, std::vector<ClassId> inputs);
  ClassId add(const algebra::Expr& expr);
  std::vector<ClassId> add_all(const std::vector<algebra::Expr>& exprs);

  // Makes two classes one; false if they were. Throws Error where their facts contradict. Classes whose inputs become
  // equal by it are found by rebuild().
  bool unite(ClassId a, ClassId b);
  void rebuild();
  bool is_clean() const { return pending_.empty(); }

  ClassId find(ClassId id) const;
  ClassId class_of(NodeId id) const { return find(node(id).of); }
  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  const algebra::Head& head(NodeId id) const { return heads_[static_cast<size_t>(node(id).head)]; }
  const Facts& facts(ClassId id) const { return classes_[static_cast<size_t>(find(id))].facts; }
  std::span<const NodeId> nodes(ClassId id) const { return classes_[static_cast<size_t>(find(id))].nodes; }
  std::vector<NodeId> nodes_of(algebra::Primitive primitive) const;  // those alive, in order of their numbers
  // Nodes of the class with this primitive, in order.
  std::vector<NodeId> nodes_in(ClassId id, algebra::Primitive primitive) const;

  std::vector<ClassId> classes() const;  // canonical ones, ascending
  size_t num_nodes() const { return alive_; }
  size_t num_nodes_ever() const { return nodes_.size(); }

  // Throws Error with the first thing that does not hold: a node whose inputs are not canonical, two equal nodes alive,
  // a class without nodes. For tests.
  void check() const;

 private:
  struct Class {
    std::vector<NodeId> nodes;
    std::vector<NodeId> parents;  // nodes that have this class as an input
    Facts facts;
  };
  struct KeyHash {
    const EGraph* graph;
    size_t operator()(NodeId id) const;
  };
  struct KeyEqual {
    const EGraph* graph;
    bool operator()(NodeId a, NodeId b) const { return graph->node(a) == graph->node(b); }
  };

  HeadId intern(const algebra::Head& head);
  void repair(ClassId id);
  Facts facts_from_inputs(NodeId id) const;

  std::vector<algebra::Head> heads_;
  std::unordered_map<std::string, std::vector<HeadId>> head_ids_;  // by their text
  std::vector<Node> nodes_;
  std::vector<Class> classes_;
  mutable std::vector<ClassId> parent_;  // union-find; the root is the lowest number
  std::unordered_map<NodeId, NodeId, KeyHash, KeyEqual> known_{64, KeyHash{this}, KeyEqual{this}};
  std::vector<std::vector<NodeId>> by_primitive_ = std::vector<std::vector<NodeId>>(kNumPrimitives);
  std::vector<ClassId> pending_;
  size_t alive_ = 0;

  static constexpr size_t kNumPrimitives = static_cast<size_t>(algebra::Primitive::kCall) + 1;

 public:
  EGraph() = default;
  EGraph(const EGraph&) = delete;  // its table points into it
  EGraph& operator=(const EGraph&) = delete;
};

}  // namespace fk
