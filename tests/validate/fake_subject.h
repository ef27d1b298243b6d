// FakeSubject: an operator run in this process, honest unless a test inserts an error.
#pragma once

#include <functional>
#include <memory>

#include "candidate/subject.h"
#include "ops/registry.h"

namespace fk::validate {

// What an inserted error can read and change, after the honest call.
struct FakeCall {
  const CallData& data;
  CallOutcome& outcome;
  const std::vector<Tensor>& params;  // as bound
  int index;                          // of the call, from 0
  int address;                        // equal for calls whose tensors are at the same addresses
  std::vector<std::optional<Tensor>>& written() const { return outcome.written; }
};

class FakeSubject : public Subject {
 public:
  using Fault = std::function<void(const FakeCall&)>;

  FakeSubject(const OperatorInfo& info, const Fields& init, const BuildOptions& options = {});

  std::optional<Failure> bind(std::span<const Tensor> params) override;
  CallOutcome call(const CallData& data, Placement placement) override;

  Fault after = {};             // changes the results of the call
  bool bind_once = false;       // keeps the first weights
  bool ignore_weights = false;  // ones instead of the bound weights
  int calls() const { return calls_; }

 private:
  const OperatorInfo& info_;
  std::unique_ptr<Node> node_;
  std::vector<Tensor> params_;
  bool bound_ = false;
  int calls_ = 0;
  int address_ = 0;
};

Tensor clone(const View& view);
void each_element(const View& view, const std::function<double(double, int64_t)>& value);

}  // namespace fk::validate
