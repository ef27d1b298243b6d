#include "graph/call_tracer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "ops/registry.h"

namespace fk {
namespace {

bool is_composition(const Node& node) {
  std::vector<const ImplementationInfo*> list = node.implementations();
  return std::any_of(list.begin(), list.end(), [](const ImplementationInfo* i) { return i->any_device; });
}

std::string argument_text(const Node& node, size_t i) {
  return fmt::format("The argument '{}' of {}{}", node.info().args[i].name, node.info().name,
                     node.path().empty() ? "" : fmt::format(" at '{}'", node.path()));
}

// What a call writes must not be what it reads, except where its contract says that an argument is updated.
void check_apart(const Node& node, Args args) {
  size_t given = count_given(node.info().args);
  for (size_t o = given; o < args.size(); ++o) {
    if (!args[o]) continue;
    for (size_t i = 0; i < o; ++i)
      if (args[i] && views_overlap(*args[i], *args[o]))
        throw Error("{} shares memory with '{}'; give every output memory of its own.", argument_text(node, o),
                    node.info().args[i].name);
  }
}

std::string own_name(const std::string& full, const Node& node) {
  return node.path().empty() ? full : full.substr(node.path().size() + 1);
}

}  // namespace

CallTracer::CallTracer(const Node& root, const TraceLeaves& leaves) : leaves_(leaves) {
  if (!is_composition(root))
    throw Error("{} is not composed of other operators, so it has no graph.", root.info().name);
  walk(root, [&](const Node& node, int) {
    for (const Node* child : node.children()) parents_.emplace(child, &node);
  });
}

bool CallTracer::before_call(const Node& node, const Context&, Args args) {
  // There is no event for the end of a call: those that do not contain this one have ended.
  auto parent = parents_.find(&node);
  while (!running_.empty() && (parent == parents_.end() || &running_.back().scope.node() != parent->second)) close();
  check_apart(node, args);
  bool composed = is_composition(node);
  if (composed)
    open(node, args);
  else
    record(node, args);
  return composed;
}

std::vector<GraphBody> CallTracer::finish() {
  while (!running_.empty()) close();
  return std::move(bodies_);
}

GraphNode CallTracer::call_of(const Node& node, const TraceScope* caller) const {
  GraphNode call{.op = std::string(node.info().name), .level = node.info().level, .init = node.init()};
  if (caller != nullptr) call.path = caller->relative(node.path());
  return call;
}

void CallTracer::open(const Node& node, Args args) {
  TraceScope* caller = running_.empty() ? nullptr : &running_.back().scope;
  Running inner{TraceScope(node, leaves_), call_of(node, caller), {args.begin(), args.end()}};
  for (size_t i = 0; i < count_given(node.info().args); ++i) {
    if (!args[i]) continue;
    std::string name(node.info().args[i].name);
    if (caller != nullptr) inner.call.inputs.push_back({name, caller->read(*args[i], argument_text(node, i))});
    inner.scope.add_argument(name, *args[i], node.info().args[i].role == Role::kState);
  }
  running_.push_back(std::move(inner));
}

void CallTracer::close() {
  Running done = std::move(running_.back());
  running_.pop_back();
  TraceScope* caller = running_.empty() ? nullptr : &running_.back().scope;
  const Node& node = done.scope.node();
  GraphBody& body = done.scope.body();
  auto add_output = [&](const std::string& name, const View& view, const std::string& text) {
    body.outputs.push_back({name, done.scope.read(view, text)});
    if (caller != nullptr) done.call.outputs.push_back({name, caller->write(view, text)});
  };
  // Before the outputs, because reading those may add none: a leaf is an input of the body once a call has used it.
  std::vector<const TraceLeaf*> leaves = done.scope.used_leaves();
  if (caller != nullptr)
    for (const TraceLeaf* leaf : leaves)
      done.call.inputs.push_back({done.scope.value(body.inputs[done.call.inputs.size()]).name,
                                  caller->read(leaf->view, fmt::format("'{}'", leaf->name))});
  for (size_t i = 0; i < node.info().args.size(); ++i)
    if (done.args[i] && node.info().args[i].role != Role::kInput)
      add_output(std::string(node.info().args[i].name), *done.args[i], argument_text(node, i));
  for (const TraceLeaf* leaf : leaves)
    if (leaf->kind == ValueKind::kState && done.scope.updated(*leaf))
      add_output(done.scope.relative(leaf->name), leaf->view, fmt::format("'{}'", leaf->name));
  done.call.body = static_cast<int>(bodies_.size());
  bodies_.push_back(std::move(body));
  if (caller != nullptr) caller->body().nodes.push_back(std::move(done.call));
}

void CallTracer::record(const Node& node, Args args) {
  FK_CHECK(!running_.empty());
  TraceScope& scope = running_.back().scope;
  GraphNode call = call_of(node, &scope);
  const std::vector<ArgSpec>& specs = node.info().args;
  for (size_t i = 0; i < count_given(specs); ++i)
    if (args[i]) call.inputs.push_back({std::string(specs[i].name), scope.read(*args[i], argument_text(node, i))});
  auto read_leaf = [&](const std::string& name) {
    const TraceLeaf* leaf = leaves_.named(name);
    FK_CHECK(leaf != nullptr, "a trace without the memory of all weights and states");
    call.inputs.push_back({own_name(name, node), scope.read(leaf->view, fmt::format("'{}'", name))});
  };
  for (const ParamSpec& p : node.own_params()) read_leaf(p.name);
  for (const StateSpec& s : node.own_states()) read_leaf(s.name);
  for (size_t i = 0; i < specs.size(); ++i)
    if (args[i] && specs[i].role != Role::kInput)
      call.outputs.push_back({std::string(specs[i].name), scope.write(*args[i], argument_text(node, i))});
  for (const StateSpec& s : node.own_states())
    call.outputs.push_back({own_name(s.name, node), scope.write(leaves_.named(s.name)->view, s.name)});
  scope.body().nodes.push_back(std::move(call));
}

}  // namespace fk
