// The registry: every operator by name, and for each the ranked list of its implementations. Filled before main by
// FK_OPERATOR and FK_IMPLEMENTATION; there is no central list to edit.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "ops/contract.h"
#include "ops/foreign.h"
#include "ops/node.h"

namespace fk {

class Builder;

struct ImplementationInfo {
  std::string_view name;  // "cpu.warp_per_row": backend, then algorithm
  DeviceKind device = DeviceKind::kCpu;
  int rank = 0;             // higher is tried first; the oracle and compositions are last
  bool any_device = false;  // compositions: run on the devices of the operators they call
  bool is_oracle = false;
  // Computes the operators below this one, too. It is not used if there is a candidate for one of them.
  bool fused = false;
  // Why this machine cannot run it at all (a missing instruction set); empty when it can.
  std::string_view (*unavailable)() = nullptr;
  // Creates an object of the operator's class T, owned by the caller, which casts it to that type.
  Operator* (*create)(const void* init, Builder& builder) = nullptr;
  // Instead of `create`, for implementations loaded at run time.
  std::shared_ptr<const ForeignKernel> foreign = nullptr;
};

struct OperatorInfo {
  std::string_view name;
  std::string_view class_name;
  int level = 0;
  bool collective = false;  // its world_size ranks compute it together, through the communicator of the context
  std::vector<ArgSpec> args;
  std::vector<ImplementationInfo> implementations;  // best first

  struct ErasedCase {
    std::string label;
    Fields init;
    Workload workload;
  };
  std::vector<ErasedCase> (*cases)() = nullptr;
  Fields (*default_init)() = nullptr;
  Inputs (*inputs)(const Fields& init, const Workload&) = nullptr;
  // The workload itself, or the nearest one that such an operator can have: all images have the same number of patches.
  Workload (*possible)(const Fields& init, const Workload&) = nullptr;
  std::vector<StateSpec> (*states)(const Fields& init) = nullptr;  // its own, without those of its parts
  Cost (*cost)(const Fields& init, const Workload&) = nullptr;
  Tolerance (*tolerance)(const Fields& init, DType) = nullptr;
  // The tolerance for these inputs and states: wider if the operator defines how its inputs amplify rounding errors,
  // else the same.
  Tolerance (*tolerance_on)(const Fields& init, DType, Args given) = nullptr;
  std::unique_ptr<Node> (*build)(const Fields& init, const BuildOptions&) = nullptr;
  // The same as a part of the operator being built: for compositions whose arguments decide which operator they call.
  std::unique_ptr<Node> (*build_child)(Builder& builder, std::string_view name, const Fields& init) = nullptr;
  // The same from an Init of the operator's own type. Through a pointer, so that the code of a node is compiled where the
  // operator is, and not again in each source that builds one.
  std::unique_ptr<Node> (*make_node)(const OperatorInfo& info, Builder& builder, std::string_view name,
                                     const void* init) = nullptr;
  // For operators with several correct outputs (sampling): checks a call itself; empty if correct, else what is wrong.
  // Args are the call's, in f64 for `reference`.
  std::string (*judge)(const Fields& init, Args call, Args reference) = nullptr;
};

class Registry {
 public:
  static Registry& instance();

  // Sorted by level, then name.
  std::vector<const OperatorInfo*> operators() const;
  const OperatorInfo* find(std::string_view name) const;
  const OperatorInfo& at(std::string_view name) const;  // throws Error with the closest name

  OperatorInfo& declare(std::string_view name);
  void add(std::string_view op, const ImplementationInfo& implementation);
  // Puts a foreign kernel before everything else the operator has, in the place of an earlier one of that name (whose
  // text must outlive the registry). Only while no tree exists: nodes point into the list.
  void add_foreign(std::string_view op, std::string_view name, DeviceKind device,
                   std::shared_ptr<const ForeignKernel> kernel);

 private:
  std::vector<std::unique_ptr<OperatorInfo>> operators_;
};

}  // namespace fk
