#include "graph/subtree_classes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ops/registry.h"

namespace fk {
namespace {

// A full path as the node names it. One that belongs to another node stays as it is: no other node uses it so.
std::string_view own_part(const std::string& full, const Node& node) {
  const std::string& path = node.path();
  if (full == path) return {};
  const bool inside = !path.empty() && full.size() > path.size() && full.starts_with(path) && full[path.size()] == '.';
  return std::string_view(full).substr(inside ? path.size() + 1 : 0);
}

}  // namespace

int SubtreeClasses::add(const Node& node) {
  std::string text = fmt::format("{}", node.info().name);
  for (const ParamSpec& p : node.own_params())
    text += fmt::format(" {} {} {} [{}]", own_part(p.name, node), p.format, dtype_name(p.spec.dtype),
                        fmt::join(p.spec.shape.extents(), ","));
  for (const StateSpec& s : node.own_states())
    text += fmt::format(" {} {} {} [{}]", own_part(s.name, node), static_cast<int>(s.kind),
                        s.dtype ? dtype_name(*s.dtype) : "", fmt::join(s.shape.extents(), ","));
  for (const Node* child : node.children()) text += fmt::format(" {} {}", own_part(child->path(), node), add(*child));
  std::vector<const Node*>& known = alike_[text];
  for (const Node* other : known)
    if (other->init() == node.init()) return classes_[&node] = classes_.at(other);
  known.push_back(&node);
  return classes_[&node] = next_++;
}

}  // namespace fk
