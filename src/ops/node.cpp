#include "ops/node.h"

#include <algorithm>

#include "core/device_runtime.h"
#include "core/error.h"
#include "ops/op.h"

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
  walk(root, [&](const Node& node, int) {
    for (const ParamSpec& p : node.own_params()) all.push_back(p);
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

namespace detail {

std::string child_path(const Node* parent, std::string_view name) {
  if (parent == nullptr || parent->path().empty()) return std::string(name);
  if (name.empty()) return parent->path();
  return parent->path() + "." + std::string(name);
}

namespace {
bool has_candidate(std::string_view op) {
  const OperatorInfo* info = Registry::instance().find(op);
  return info != nullptr && std::any_of(info->implementations.begin(), info->implementations.end(),
                                        [](const ImplementationInfo& i) { return i.foreign != nullptr; });
}
}  // namespace

bool usable(const OperatorInfo& op, const ImplementationInfo& implementation, const BuildOptions& options) {
  if (op.name == options.only_operator) return implementation.name == options.only_implementation;
  if (options.oracle) return implementation.is_oracle || implementation.any_device;
  if (implementation.any_device) return true;
  if (implementation.device != options.device.kind) return false;
  if (std::any_of(implementation.stands_for.begin(), implementation.stands_for.end(), has_candidate)) return false;
  return implementation.unavailable == nullptr || implementation.unavailable().empty();
}

void throw_no_implementation(std::string_view op, const BuildOptions& options) {
  throw Error("The operator {} has no implementation for device {}{}.", op, device_name(options.device),
              options.only_operator == op ? fmt::format(" named '{}'", options.only_implementation) : "");
}

namespace {
std::string call_text(const OperatorInfo& info, Args args) {
  std::string text;
  for (size_t i = 0; i < args.size(); ++i)
    text += fmt::format("{}{}: {}", i == 0 ? "" : ", ", info.args[i].name, args[i] ? args[i]->str() : "none");
  return text;
}
}  // namespace

void throw_all_refused(const Node& node, Args args) {
  throw Error("No implementation of {} takes ({}): {}", node.info().name, call_text(node.info(), args),
              node.refusal(args));
}

void call_and_wait(const Node& node, const ImplementationInfo& implementation, Args args,
                   const std::function<void()>& forward) {
  try {
    forward();
    for (const OptView& v : args)
      if (v && v->device() != kCpu) return device_runtime(v->device()).synchronize();
  } catch (const Error& error) {
    throw Error("{} by {}{} failed on ({}): {}", node.info().name, implementation.name,
                node.path().empty() ? "" : " at " + node.path(), call_text(node.info(), args), error.what());
  }
}

void check_call(const OperatorInfo& info, const Node& node, Args args, DeviceKind device) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i]) {
      if (!info.args[i].optional)
        throw Error("{} ({}) was called without its argument '{}'.", info.name, node.path(), info.args[i].name);
    } else if (args[i]->device().kind != device) {
      throw Error("{} runs on {} but its argument '{}' is on {}; nothing is copied silently.", info.name,
                  device == DeviceKind::kCpu ? "cpu" : "cuda", info.args[i].name, device_name(args[i]->device()));
    }
  }
}

}  // namespace detail
}  // namespace fk
