// LocalSubject: a candidate called in this very process, without walls, so that a debugger or a sanitizer can look at
// the calls of a judgement. It may do here whatever it likes: what comes of it is for its author to see, and no
// verdict.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "candidate/subject.h"
#include "ops/registry.h"

namespace fk {

class LocalSubject final : public Subject {
 public:
  // On the CPU. Throws Error where the library is no candidate for the operator.
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
