// ProcessSubject: an operator in a runner process, called once at a time with everything checked around the call.
#pragma once

#include <memory>
#include <vector>

#include "candidate/runner/call_memory.h"
#include "candidate/runner/runner_process.h"
#include "candidate/subject.h"

namespace fk {

class ProcessSubject final : public Subject {
 public:
  explicit ProcessSubject(const RunnerOptions& options);

  std::optional<Failure> bind(std::span<const Tensor> params) override;
  std::optional<Failure> refusal(const CallData& shapes) override;
  CallOutcome call(const CallData& data, Placement placement) override;
  std::optional<CallOutcome> look_again() override;

  RunnerProcess& process() { return *process_; }
  int64_t prepare_ns() const { return prepare_ns_; }

 private:
  struct Mapped {
    std::unique_ptr<CallMemory> memory;
    int inputs_segment = 0, written_segment = 0;
    std::vector<TensorSpec> shape;  // of what it holds
  };
  static void read_written(const Mapped& mapped, CallOutcome& outcome);
  Mapped& memory_for(const CallData& data, Placement placement);
  void forget_memory();
  std::optional<Failure> look_after(const Mapped& mapped, const CallData& data, const RunTimes& times);

  Device device_;
  std::unique_ptr<Node> root_;  // for roles and shapes; never called
  std::unique_ptr<RunnerProcess> process_;
  std::unique_ptr<SharedTensors> params_;
  int params_segment_ = -1;
  // All mappings stay until the next bind, so that a new place is really new.
  std::vector<Mapped> mapped_;
  uint8_t pattern_;
  int64_t prepare_ns_ = 0;
};

}  // namespace fk
