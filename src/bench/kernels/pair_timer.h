// Times a candidate against its baseline, in pairs, in separate processes.
//
// One round is the baseline, the candidate and the baseline once more (the control), each in its own runner, in random
// order, on the same new inputs. A run has several launches of all three. A runner is stopped, with all its threads,
// except during a sample; the time of a sample is the time from resuming it until it is stopped again, by our clock
// (exchange_cost.h describes what could be hidden from it). Timed calls are checked (output_check.h), and every launch
// has calls of a judgement between and after its timed calls, in the same process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/kernels/launch_sides.h"
#include "candidate/verdict.h"
#include "candidate/walls.h"
#include "core/device.h"
#include "measure/core_clock.h"
#include "measure/paired.h"
#include "ops/registry.h"
#include "sandbox/runner_process.h"
#include "validate/input_maker.h"
#include "validate/judge.h"

namespace fk {

struct TimingOptions {
  int pairs = 100;    // minimum over all launches together
  int launches = 6;   // of each process; with a multiple of six the speeds of the memories cancel (turns.h)
  int warmups = 5;    // untimed rounds of a launch, at most: on a CPU none starts after 8 ms
  bool cold = false;  // caches are emptied before each sample: weights are cold in its first call only
  Device device = kCpu;
  int threads = 1;
  uint64_t seed = 0;
  // A sample has as many calls, each on other inputs, as needed to be at least this long; on a CPU four calls, or a
  // millisecond.
  double sample_s = 100e-6;
  int64_t timeout_ns = int64_t{30} * 1000000000;
  double budget_s = 60;  // no new round after this time
  // Time for more launches while the interval is wide, up to four times the pairs; four times as long, with four times
  // as many pairs, if one call fills a sample.
  double sample_on_s = 0;
  // The time that all launches together should take, on a CPU (sampling.h). Short calls then have up to three times the
  // pairs, long ones fewer, but at least four in a launch. Zero: as long as the pairs and sample_on_s take.
  double aim_s = 0;
  const InputMaker* inputs = &contract_inputs();
  std::function<double()> core_chain = chain_ns;  // measures how fast a core's clock is now
  // Called before every launch, while no runner exists, with the calls of a sample: for measurements of the machine.
  std::function<void(int calls_per_sample)> between_launches = {};
  std::string baseline_library = {};  // used instead of the baseline, for experiments with the protocol itself
};

struct TimingResult {
  std::optional<Failure> failure;  // if set, the times are not valid
  PairedSamples samples;           // of one call, in ns
  PairedSamples control;
  PairedResult paired;
  int calls_per_sample = 0;
  double could_hide_ns = 0;  // of one call, at most: a smaller gain is not ranked
  double exchange_ns = 0;    // of one sample: waking and stopping a runner, which is subtracted
  // One call alone in its sample, median: a side that is much faster in a batch uses the later calls' inputs.
  double baseline_alone_ns = 0, candidate_alone_ns = 0;
  int64_t prepare_ns = 0;         // of the candidate
  int64_t baseline_peak_kib = 0;  // of the whole process
  int64_t candidate_peak_kib = 0;
  int64_t baseline_own_kib = 0, candidate_own_kib = 0;  // shared with nobody, most after a sample
  std::vector<Protection> protections;
  int64_t elements_checked = 0;  // elements of timed outputs
  int calls_judged = 0;          // timed calls that were compared completely with the oracle
  // Of all launches together, warm-ups included, without those of the control.
  std::vector<RunnerDispatch> baseline_dispatches, candidate_dispatches;
  // On a GPU only.
  bool held = false;     // everything was queued before the device started, so that launch overhead does not count
  double clock_mhz = 0;  // of the multiprocessors, median of the candidate's samples
};

// The objects of a judgement that the timing after it uses.
struct JudgedLaunch {
  Judge* judge = nullptr;              // null: one is created
  std::unique_ptr<LaunchSides> sides;  // its processes, used by the first launch; null: it starts new ones
};

// `library` is the candidate's shared object; empty times the baseline against itself.
TimingResult time_pairs(const OperatorInfo& op, const Fields& init, const Workload& workload,
                        const std::string& library, const TimingOptions& options,
                        const std::function<void(double done)>& progress, JudgedLaunch judged = {});

}  // namespace fk
