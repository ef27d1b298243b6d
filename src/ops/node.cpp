#include "ops/node.h"

#include <algorithm>
#include <map>

#include "core/check.h"

namespace fk {

void Node::bind(const Lookup& weight) {
  std::vector<View> views;
  for (const ParamSpec& p : params_) {
    View v = weight(p.name);
    FK_CHECK(v.spec() == p.spec, "a weight was bound with another shape or dtype than its operator asked for");
    views.push_back(v);
  }
  bind_own(views, weight);
  for (Node* child : children_) child->bind(weight);
}

std::pair<std::vector<std::string>, std::vector<View>> Node::subtree_params(const Lookup& weight) const {
  std::pair<std::vector<std::string>, std::vector<View>> found;
  for (const ParamSpec& p : collect_params(*this)) {
    found.first.push_back(path_.empty() ? p.name : p.name.substr(path_.size() + 1));
    found.second.push_back(weight(p.name));
  }
  return found;
}

std::vector<StateSpec> Node::subtree_states() const {
  std::vector<StateSpec> found = collect_states(*this);
  if (!path_.empty())
    for (StateSpec& s : found) s.name = s.name.substr(path_.size() + 1);
  return found;
}

size_t Node::number_states(size_t first) {
  first_state_ = first;
  size_t next = first + states_.size();
  for (Node* child : children_) next = child->number_states(next);
  num_states_ = next - first;
  place_own_states();
  return next;
}

void walk(const Node& root, const std::function<void(const Node&, int)>& visit) {
  auto go = [&](auto&& self, const Node& node, int depth) -> void {
    visit(node, depth);
    for (const Node* child : node.children()) self(self, *child, depth + 1);
  };
  go(go, root, 0);
}

std::vector<ParamSpec> collect_params(const Node& root) {
  std::vector<ParamSpec> all;
  std::map<std::string_view, const ParamSpec*> known;
  walk(root, [&](const Node& node, int) {
    for (const ParamSpec& p : node.own_params()) {
      auto [at, is_new] = known.emplace(p.name, &p);
      FK_CHECK(at->second->spec == p.spec, "two operators share a parameter and give it different shapes or dtypes");
      if (is_new) all.push_back(p);
    }
  });
  return all;
}

std::vector<StateSpec> collect_states(const Node& root) {
  std::vector<StateSpec> all;
  walk(root, [&](const Node& node, int) {
    for (const StateSpec& s : node.own_states()) all.push_back(s);
  });
  return all;
}

std::vector<DispatchCount> collect_dispatches(const Node& root) {
  std::vector<DispatchCount> raw, sum;
  walk(root, [&](const Node& node, int) { node.count_dispatches(raw); });
  for (const DispatchCount& c : raw) {
    auto same = std::find_if(sum.begin(), sum.end(), [&](const DispatchCount& s) {
      return s.op == c.op && s.implementation == c.implementation && s.rows_up_to == c.rows_up_to;
    });
    if (same == sum.end())
      sum.push_back(c);
    else
      same->calls += c.calls;
  }
  return sum;
}

}  // namespace fk
