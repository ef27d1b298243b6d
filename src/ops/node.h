// Node: one operator inside a model, with its position in the tree, its parameters and its ranked implementations.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "ops/contract.h"

namespace fk {

struct OperatorInfo;
struct ImplementationInfo;

struct BuildOptions {
  Device device = kCpu;
  // Only oracles and compositions: with tensors in f64 the tree computes the reference.
  bool oracle = false;
  // Only this implementation of this operator (by names); everything else is ranked as usual.
  std::string only_operator = {};
  std::string only_implementation = {};
};

// Calls of one implementation, by size: class i counts calls whose first argument has 2^(i-1) < rows <= 2^i.
struct DispatchCount {
  std::string_view op;
  std::string_view implementation;
  int64_t rows_up_to = 0;
  int64_t calls = 0;
};

// A call that is made many times: which implementation takes it was decided before, and what it needs is in place, so
// that make() costs little more than the kernel.
class ReadyCall {
 public:
  virtual ~ReadyCall() = default;

  void make() {
    ++*count_;
    run();
  }
  void count_in(int64_t& count) { count_ = &count; }

 protected:
  virtual void run() = 0;

 private:
  int64_t* count_ = nullptr;
};

class Node {
 public:
  Node(const OperatorInfo& info, std::string path, Fields init)
      : info_(info), path_(std::move(path)), init_(std::move(init)) {}
  virtual ~Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const OperatorInfo& info() const { return info_; }
  const std::string& path() const { return path_; }  // "model.layers.0.mlp"
  const Fields& init() const { return init_; }
  const std::vector<Node*>& children() const { return children_; }
  const std::vector<ParamSpec>& own_params() const { return params_; }  // names are full paths
  const std::vector<StateSpec>& own_states() const { return states_; }  // likewise
  // The part of the context's states that belongs to this node and its children.
  size_t first_state() const { return first_state_; }
  size_t num_states() const { return num_states_; }

  void adopt(Node& child) { children_.push_back(&child); }

  // The ranked implementations that this node may dispatch to.
  virtual std::vector<const ImplementationInfo*> implementations() const = 0;
  // A whole call: every argument of forward, outputs included.
  virtual void call(Context& ctx, Args args) = 0;
  // The same, to be made later; none if no implementation takes it, and `refusal` says why. Implementations are asked
  // once, so that the one that takes the call is the one that was asked. `ctx` and `args` must stay valid as long as
  // the result is used.
  virtual std::unique_ptr<ReadyCall> ready(Context& ctx, Args args, std::string& refusal) = 0;
  // Why each implementation refuses such a call; empty if one supports it.
  virtual std::string refusal(Args args) const = 0;
  // The implementation that takes such a call.
  virtual const ImplementationInfo* chosen(Args args) const = 0;
  virtual OutputSpecs outputs(Args given) const = 0;
  virtual void count_dispatches(std::vector<DispatchCount>& counts) const = 0;

  using Lookup = std::function<View(const std::string& name)>;
  // Binds this node and everything below it to their weights.
  void bind(const Lookup& weight);

 protected:
  // Called on the root of a complete tree: sets the index of every node's first state. Returns one past the last index.
  size_t number_states(size_t first);
  virtual void place_own_states() = 0;
  virtual void bind_own(const std::vector<View>& params, const Lookup& weight) = 0;
  // Weights of this node and all below it, by names relative to this node.
  std::pair<std::vector<std::string>, std::vector<View>> subtree_params(const Lookup& weight) const;
  // Likewise, in tree order.
  std::vector<StateSpec> subtree_states() const;
  const OperatorInfo& info_;
  std::string path_;
  Fields init_;
  std::vector<Node*> children_;
  std::vector<ParamSpec> params_;
  std::vector<StateSpec> states_;
  size_t first_state_ = 0, num_states_ = 0;
};

// Parameters of the whole tree, in the order the model builds its parts.
std::vector<ParamSpec> collect_params(const Node& root);
// States of the whole tree, depth first: a node's own, then those of its parts. The order of Context::states.
std::vector<StateSpec> collect_states(const Node& root);
// Dispatches of the whole tree, equal (operator, implementation, size) added up.
std::vector<DispatchCount> collect_dispatches(const Node& root);
void walk(const Node& root, const std::function<void(const Node&, int depth)>& visit);

}  // namespace fk
