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

CallTracer::CallTracer(const Node& root, const TraceLeaves& leaves, const SubtreeClasses* classes)
    : leaves_(leaves), classes_(classes) {
  if (!is_composition(root))
    throw Error("{} is not composed of other operators, so it has no graph.", root.info().name);
  walk(root, [&](const Node& node, int) {
    for (const Node* child : node.children()) parents_.emplace(child, &node);
  });
}

bool CallTracer::before_call(const Node& node, const Context& ctx, Args args) {
  // There is no event for the end of a call: those that do not contain this one have ended.
  auto parent = parents_.find(&node);
  while (!running_.empty() && (parent == parents_.end() || &running_.back().scope.node() != parent->second)) close();
  check_apart(node, args);
  if (!is_composition(node)) {
    record(node, args);
    return false;
  }
  std::string kind = call_kind(node, ctx, args);
  if (auto known = bodies_of_.find(kind); known != bodies_of_.end() && !running_.empty()) {
    repeat(node, args, known->second);
    return false;
  }
  open(node, args, std::move(kind));
  return true;
}

std::string CallTracer::call_kind(const Node& node, const Context& ctx, Args args) const {
  std::string kind;
  if (classes_ == nullptr) return kind;
  auto add = [&](int64_t number) { kind.append(reinterpret_cast<const char*>(&number), sizeof number); };
  add(classes_->of(node));
  add(reinterpret_cast<int64_t>(ctx.attention));
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i]) {
      add(-1);
      continue;
    }
    const View& view = *args[i];
    add(view.rank());
    add(static_cast<int64_t>(view.dtype()));
    for (int d = 0; d < view.rank(); ++d) {
      add(view.size(d));
      add(view.stride(d));
    }
    // A body reads what was written last to a piece of memory, so it matters which arguments share theirs.
    for (size_t j = 0; j < i; ++j)
      if (args[j] && views_overlap(*args[j], view)) {
        add(static_cast<int64_t>(j));
        add(reinterpret_cast<int64_t>(view.data()) - reinterpret_cast<int64_t>(args[j]->data()));
      }
    if (const TraceLeaf* leaf = leaves_.at(view)) {
      kind += leaf->name;
      add(reinterpret_cast<int64_t>(view.data()) - reinterpret_cast<int64_t>(leaf->view.data()));
    }
  }
  return kind;
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

void CallTracer::open(const Node& node, Args args, std::string kind) {
  TraceScope* caller = running_.empty() ? nullptr : &running_.back().scope;
  Running inner{TraceScope(node, leaves_), call_of(node, caller), {args.begin(), args.end()}, std::move(kind)};
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
  if (!done.kind.empty()) bodies_of_.emplace(done.kind, done.call.body);
  bodies_.push_back(std::move(body));
  if (caller != nullptr) caller->body().nodes.push_back(std::move(done.call));
}

// As open() and close() would have done it.
void CallTracer::repeat(const Node& node, Args args, int known) {
  TraceScope& caller = running_.back().scope;
  const GraphBody& body = bodies_[static_cast<size_t>(known)];
  GraphNode call = call_of(node, &caller);
  call.body = known;
  auto leaf_of = [&](const std::string& name, ValueKind kind) -> const TraceLeaf& {
    const bool own = kind != ValueKind::kBatch && !node.path().empty();
    const TraceLeaf* leaf = leaves_.named(own ? node.path() + "." + name : name);
    FK_CHECK(leaf != nullptr, "a part of a tree that is built like another one has other weights or states");
    return *leaf;
  };
  const std::vector<ArgSpec>& specs = node.info().args;
  for (size_t i = 0; i < count_given(specs); ++i)
    if (args[i]) call.inputs.push_back({std::string(specs[i].name), caller.read(*args[i], argument_text(node, i))});
  while (call.inputs.size() < body.inputs.size()) {
    const GraphValue& value = body.values[static_cast<size_t>(body.inputs[call.inputs.size()])];
    const TraceLeaf& leaf = leaf_of(value.name, value.kind);
    call.inputs.push_back({value.name, caller.read(leaf.view, fmt::format("'{}'", leaf.name))});
  }
  for (size_t i = 0; i < specs.size(); ++i)
    if (args[i] && specs[i].role != Role::kInput)
      call.outputs.push_back({std::string(specs[i].name), caller.write(*args[i], argument_text(node, i))});
  while (call.outputs.size() < body.outputs.size()) {
    const std::string& name = body.outputs[call.outputs.size()].name;
    const TraceLeaf& leaf = leaf_of(name, ValueKind::kState);
    call.outputs.push_back({name, caller.write(leaf.view, fmt::format("'{}'", leaf.name))});
  }
  caller.body().nodes.push_back(std::move(call));
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
