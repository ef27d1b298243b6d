// DispatchNode: a node with its ranked implementations, of which the first that supports a call runs it.
//
// An implementation is created and bound to its weights when a call first asks for it, so that one that never runs
// costs nothing: neither the time nor the memory of a repacked copy of the weights. Two kinds are created with the
// node: compositions, because their parts are the nodes below this one, and candidates, whose errors must appear at
// once.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/registry.h"

namespace fk {

class DispatchNode : public Node {
 public:
  DispatchNode(Builder& builder, const OperatorInfo& info, std::string_view name, Fields init);

  std::vector<const ImplementationInfo*> implementations() const override;
  void call(Context& ctx, Args args) override;
  std::unique_ptr<ReadyCall> ready(Context& ctx, Args args, std::string& refusal) override;
  std::string refusal(Args args) const override;
  const ImplementationInfo* chosen(Args args) const override;
  void count_dispatches(std::vector<DispatchCount>& counts) const override;

 protected:
  // Called at the end of the derived class's constructor, when the functions below can be called.
  void complete(Builder& builder, std::vector<ParamSpec> params, std::vector<StateSpec> states);

  virtual std::unique_ptr<Operator> create(const ImplementationInfo& from, Builder& builder) const = 0;
  virtual std::unique_ptr<Operator> adapt(std::unique_ptr<ForeignOperator> foreign) const = 0;
  virtual void forward(Operator& implementation, Context& ctx, Args args) const = 0;

  void place_own_states() override;
  void bind_own(const std::vector<View>& params, const Lookup& weight) override;

 private:
  class OwnCall;
  static constexpr size_t kSizeClasses = 24;
  struct Slot {
    const ImplementationInfo* info;
    std::unique_ptr<Operator> implementation = nullptr;  // none before it is asked for
    ForeignOperator* foreign = nullptr;                  // inside a candidate's implementation
    std::array<int64_t, kSizeClasses> calls = {};
  };

  Operator& made(Slot& slot) const;
  static int64_t& count_of(Slot& slot, Args args);
  bool waits_for_device(const Slot& slot) const;
  void add_reason(std::string& all, const Slot& slot, std::string_view why) const;
  void bind_slot(Slot& slot) const;
  bool a_part_has_a_candidate() const;
  bool has_candidate_between_ranks() const;

  Device device_;
  mutable std::vector<Slot> slots_;  // best first
  std::unique_ptr<Operator> parts_;  // the composition, where it is not among the slots
  std::vector<View> bound_;          // the node's own weights; empty before bind()
  // Names relative to this node, and weights, of the whole subtree. Only where an implementation replaces the parts.
  std::pair<std::vector<std::string>, std::vector<View>> subtree_;
  bool is_bound_ = false;
};

}  // namespace fk
