// Tier 1: one candidate on one scenario, judged first and timed only if it is correct.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "bench/kernels/kernel_floor.h"
#include "bench/kernels/pair_timer.h"
#include "bench/scenarios/scenario.h"
#include "core/json_fwd.h"
#include "validate/judge.h"

namespace fk {

struct KernelOptions {
  TimingOptions timing;
  // Seed of the judgement. Empty: random for each scenario and reported afterwards, so that no candidate can be written
  // for it.
  std::optional<uint64_t> seed;
  std::optional<int> last_call;    // of the judgement: repeats it up to this call, without timing
  bool in_process = false;         // with last_call: the candidate runs in this process, for a debugger
  double timeout_s = 300;          // for the whole scenario
  bool other_cache_state = false;  // also time it with the other state of the caches, with a few pairs
};

// The result of measuring a new best again, with new seeds.
struct Confirmation {
  double best_before = 1;  // the speed-up it had to beat, both times; 1 is the baseline itself
  bool confirmed = false;
  std::string sentence = {};           // why it is not confirmed
  std::optional<uint64_t> seed = {};   // of the second measurement
  std::optional<double> speedup = {};  // of the second measurement, if it could be ranked
  Interval interval = {};              // of that speed-up
};

struct KernelResult {
  Scenario scenario;
  Verdict verdict = Verdict::kCrashed;
  std::string sentence;  // why it is not PASSED; empty if it is
  Judgement judgement;
  std::string printed;                       // output of the candidate, if one call is repeated (last_call)
  std::optional<TimingResult> timing;        // only if the candidate passed
  std::optional<TimingResult> other_timing;  // with the other state of the caches, if requested
  std::optional<Confirmation> confirmation;  // only if it beat the best known result
  Cost cost;
  Floor floor;             // of one call
  std::string floor_note;  // if the floor was wrong for this call; otherwise empty
  double seconds = 0;      // time of the whole scenario

  bool passed() const { return verdict == Verdict::kPassed; }
  bool cold = false;        // the state of the caches in `timing`
  double of_floor() const;  // share of the floor that the candidate reaches; 0 if it was not timed
};

// Caches what many scenarios share: speeds of this machine, and which tasks can detect errors.
class KernelBench {
 public:
  explicit KernelBench(ThreadPool& pool, Device device = kCpu) : device_(device), floors_(pool, device) {}

  // `library`: the candidate's shared object; empty: the baseline is used as the candidate.
  KernelResult run(const Scenario& scenario, const std::string& library, const KernelOptions& options,
                   const std::function<void(std::string_view)>& progress);

 private:
  std::optional<Failure> check_task_once(const Scenario& scenario, const InputMaker& inputs, Subject& baseline,
                                         uint64_t seed);

  // Checks whether the candidate was faster than the hardware limit, and sets the result.
  void hold_against_floor(KernelResult& result);

  Device device_;
  KernelFloor floors_;
  std::set<std::string> sound_tasks_;  // by operator, constructor arguments, dtype and generators
};

// The result of a scenario for a candidate that could not be built.
KernelResult failed_kernel(const Scenario& scenario, const Failure& failure);

// What limits the candidate and what to optimize first, in sentences, one per line.
std::string explain(const KernelResult& result);

Json to_json(const KernelResult& result);
Json to_json(const Confirmation& confirmation);
Json to_json(const std::vector<Protection>& protections);

}  // namespace fk
