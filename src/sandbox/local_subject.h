// LocalSubject: calls a candidate in this process, without a sandbox, so that a debugger or a sanitizer can observe the
// calls of a judgement. The candidate is not restricted here, so the result is not a verdict.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "candidate/subject.h"
#include "ops/registry.h"

namespace fk {

class LocalSubject final : public Subject {
 public:
  // On the CPU. Throws Error if the library is not a candidate for the operator.
  LocalSubject(const OperatorInfo& op, const Fields& init, const std::string& library, int threads);

  std::optional<Failure> bind(std::span<const Tensor> params) override;
  std::optional<Failure> refusal(const CallData& shapes) override;
  CallOutcome call(const CallData& data, Placement placement) override;

 private:
  // The arguments of a call, with outputs that `outcome` owns and that hold poison.
  std::vector<OptView> arguments(const CallData& data, CallOutcome& outcome) const;

  const OperatorInfo& op_;
  std::unique_ptr<Node> root_;  // for parameters and shapes; never called
  std::unique_ptr<ForeignOperator> candidate_;
  ThreadPool pool_;
  Arena arena_;
  std::vector<Tensor> params_;
};

}  // namespace fk
