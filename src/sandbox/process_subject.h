// ProcessSubject: an operator in a runner process, with all checks before and after its calls.
//
// Calls are made like timed calls: one to four in a request, on the same data at different addresses. The outcome is
// that of one of them, chosen at random after they returned; calls with different results are reported with it.
#pragma once

#include <memory>
#include <vector>

#include "candidate/subject.h"
#include "core/rng.h"
#include "sandbox/call_memory.h"
#include "sandbox/runner_process.h"

namespace fk {

class ProcessSubject final : public Subject {
 public:
  // `seed` decides how calls are placed and repeated, so that a judgement can be repeated.
  explicit ProcessSubject(const RunnerOptions& options, uint64_t seed = secret_number());

  std::optional<Failure> bind(std::span<const Tensor> params) override;
  std::optional<Failure> refusal(const CallData& shapes) override;
  CallOutcome call(const CallData& data, Placement placement) override;
  std::optional<CallOutcome> look_again() override;

  RunnerProcess& process() { return *process_; }
  int64_t prepare_ns() const { return prepare_ns_; }
  // Unmaps calls and weights, for a caller that continues with its own memory.
  void release();

 private:
  struct Mapped {
    std::unique_ptr<CallMemory> memory;
    int inputs_segment = 0, written_segment = 0;
    std::vector<TensorSpec> shape;  // of its tensors
    std::vector<int> calls;         // slots, in the order of the calls
    int examined = 0;               // the one chosen in the last request
  };
  static void read_slot(const Mapped& mapped, int slot, CallOutcome& outcome);
  static void read_all(const Mapped& mapped, CallOutcome& outcome);
  void forget_calls();
  Mapped& memory_for(const CallData& data, Placement placement);
  std::optional<Failure> look_after(const Mapped& mapped, const CallData& data, const RunTimes& times);

  Device device_;
  std::unique_ptr<Node> root_;  // for roles and shapes; never called
  std::unique_ptr<RunnerProcess> process_;
  std::unique_ptr<SharedTensors> params_;
  int params_segment_ = -1;
  // All mappings stay until the next bind, so that a new address is really new.
  std::vector<Mapped> mapped_;
  uint8_t pattern_;
  Stream random_;
  uint64_t draws_ = 0;
  int64_t longest_ns_ = 0;  // of a call
  int64_t prepare_ns_ = 0;
};

}  // namespace fk
