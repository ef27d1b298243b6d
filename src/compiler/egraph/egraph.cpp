#include "compiler/egraph/egraph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"

namespace fk {

using algebra::Expr;
using algebra::ExprNode;
using algebra::Head;
using algebra::Primitive;

size_t EGraph::KeyHash::operator()(NodeId id) const {
  const Node& n = graph->node(id);
  auto hash = static_cast<uint64_t>(n.head) * 0x9e3779b97f4a7c15u;
  for (ClassId c : n.inputs) hash = (hash ^ static_cast<uint64_t>(c)) * 0x100000001b3u + (hash >> 29);
  return hash;
}

HeadId EGraph::intern(const Head& head) {
  std::vector<HeadId>& same_text = head_ids_[algebra::head_text(head)];
  for (HeadId id : same_text)
    if (heads_[static_cast<size_t>(id)] == head) return id;
  heads_.push_back(head);
  same_text.push_back(static_cast<HeadId>(heads_.size() - 1));
  return same_text.back();
}

ClassId EGraph::add(Head head, std::vector<ClassId> inputs) {
  std::vector<const Facts*> facts;
  for (ClassId& c : inputs) {
    c = find(c);
    facts.push_back(&classes_[static_cast<size_t>(c)].facts);
  }
  Facts own = facts_of(head, facts);
  head.shape = own.shape;
  head.dtype = own.dtype;
  auto id = static_cast<NodeId>(nodes_.size());
  nodes_.push_back({intern(head), std::move(inputs), static_cast<ClassId>(classes_.size())});
  auto [at, is_new] = known_.emplace(id, id);
  if (!is_new) {
    nodes_.pop_back();
    return class_of(at->second);
  }
  ++alive_;
  auto of = static_cast<ClassId>(classes_.size());
  classes_.push_back({{id}, {}, std::move(own)});
  parent_.push_back(of);
  by_primitive_[static_cast<size_t>(head.primitive)].push_back(id);
  for (ClassId c : nodes_.back().inputs) classes_[static_cast<size_t>(c)].parents.push_back(id);
  return of;
}

ClassId EGraph::add(const Expr& expr) { return add_all({expr})[0]; }

std::vector<ClassId> EGraph::add_all(const std::vector<Expr>& exprs) {
  std::map<const ExprNode*, ClassId> done;
  auto visit = [&](auto&& self, const Expr& e) -> ClassId {
    if (auto at = done.find(e.id()); at != done.end()) return at->second;
    std::vector<ClassId> inputs;
    for (const Expr& x : e.inputs()) inputs.push_back(self(self, x));
    return done[e.id()] = add(e.head(), std::move(inputs));
  };
  std::vector<ClassId> ids;
  for (const Expr& e : exprs) ids.push_back(visit(visit, e));
  return ids;
}

ClassId EGraph::find(ClassId id) const {
  while (parent_[static_cast<size_t>(id)] != id) {
    ClassId& next = parent_[static_cast<size_t>(id)];
    next = parent_[static_cast<size_t>(next)];
    id = next;
  }
  return id;
}

bool EGraph::unite(ClassId a, ClassId b) {
  a = find(a);
  b = find(b);
  if (a == b) return false;
  if (b < a) std::swap(a, b);
  Class &stays = classes_[static_cast<size_t>(a)], &goes = classes_[static_cast<size_t>(b)];
  merge_facts(stays.facts, goes.facts);
  parent_[static_cast<size_t>(b)] = a;
  stays.nodes.insert(stays.nodes.end(), goes.nodes.begin(), goes.nodes.end());
  stays.parents.insert(stays.parents.end(), goes.parents.begin(), goes.parents.end());
  goes.nodes.clear();
  goes.parents.clear();
  pending_.push_back(a);
  return true;
}

void EGraph::rebuild() {
  std::set<ClassId> changed;
  while (!pending_.empty()) {
    std::set<ClassId> now;
    for (ClassId id : pending_) now.insert(find(id));
    pending_.clear();
    for (ClassId id : now) repair(find(id));
    changed.insert(now.begin(), now.end());
  }
  // Nodes that were replaced by equal ones are in one class with them by now.
  std::set<ClassId> roots;
  for (ClassId id : changed) roots.insert(find(id));
  for (ClassId id : classes()) {
    std::vector<NodeId>& list = classes_[static_cast<size_t>(id)].nodes;
    std::erase_if(list, [&](NodeId n) { return !node(n).alive; });
    if (roots.contains(id)) std::sort(list.begin(), list.end());
  }
}

void EGraph::repair(ClassId id) {
  std::vector<NodeId> parents = std::move(classes_[static_cast<size_t>(id)].parents);
  std::sort(parents.begin(), parents.end());
  parents.erase(std::unique(parents.begin(), parents.end()), parents.end());
  std::vector<NodeId> kept;
  for (NodeId p : parents) {
    Node& n = nodes_[static_cast<size_t>(p)];
    if (!n.alive) continue;
    if (auto at = known_.find(p); at != known_.end() && at->second == p) known_.erase(at);
    for (ClassId& c : n.inputs) c = find(c);
    auto [at, is_new] = known_.emplace(p, p);
    if (!is_new) {
      n.alive = false;
      --alive_;
      unite(n.of, node(at->second).of);
      continue;
    }
    kept.push_back(p);
  }
  for (NodeId p : kept) {
    ClassId of = class_of(p);
    if (merge_facts(classes_[static_cast<size_t>(of)].facts, facts_from_inputs(p))) pending_.push_back(of);
  }
  std::vector<NodeId>& now = classes_[static_cast<size_t>(find(id))].parents;
  now.insert(now.end(), kept.begin(), kept.end());
}

Facts EGraph::facts_from_inputs(NodeId id) const {
  std::vector<const Facts*> inputs;
  for (ClassId c : node(id).inputs) inputs.push_back(&facts(c));
  return facts_of(head(id), inputs);
}

std::vector<NodeId> EGraph::nodes_of(Primitive primitive) const {
  std::vector<NodeId> list;
  for (NodeId id : by_primitive_[static_cast<size_t>(primitive)])
    if (node(id).alive) list.push_back(id);
  return list;
}

std::vector<NodeId> EGraph::nodes_in(ClassId id, Primitive primitive) const {
  std::vector<NodeId> list;
  for (NodeId n : nodes(id))
    if (node(n).alive && head(n).is(primitive)) list.push_back(n);
  return list;
}

std::vector<ClassId> EGraph::classes() const {
  std::vector<ClassId> list;
  for (ClassId id = 0; id < static_cast<ClassId>(classes_.size()); ++id)
    if (find(id) == id) list.push_back(id);
  return list;
}

void EGraph::check() const {
  if (!is_clean()) throw Error("The e-graph has unions that were not rebuilt.");
  std::set<std::pair<HeadId, std::vector<ClassId>>> seen;
  for (ClassId id : classes()) {
    if (nodes(id).empty()) throw Error("Class {} has no nodes.", id);
    for (NodeId n : nodes(id)) {
      if (class_of(n) != id) throw Error("Node {} is listed in class {} and belongs to class {}.", n, id, class_of(n));
      for (ClassId c : node(n).inputs)
        if (find(c) != c) throw Error("Node {} of class {} has an input that is not canonical.", n, id);
      if (!seen.emplace(node(n).head, node(n).inputs).second) throw Error("Two nodes equal to {} are alive.", n);
    }
  }
}

}  // namespace fk
