// Times a candidate against its baseline, in pairs, in processes of their own.
//
// One round is the baseline, the candidate and the baseline once more (the control), each in its own runner, in random
// order, on the same fresh inputs. Several launches of all three make up a run. A runner is stopped, with all its
// threads, except while it makes the calls of a sample; a sample's time is that between letting it go and having it
// stopped again, by our clock (exchange_cost.h says what that leaves to hide). Timed calls are judged like any other
// (output_check.h), and every launch has calls of a judgement before and among its timed ones, in the same process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/kernels/launch_sides.h"
#include "candidate/runner/runner_process.h"
#include "candidate/runner/sandbox.h"
#include "candidate/verdict.h"
#include "core/device.h"
#include "measure/core_clock.h"
#include "measure/paired.h"
#include "ops/registry.h"
#include "validate/input_maker.h"
#include "validate/judge.h"

namespace fk {

struct TimingOptions {
  int pairs = 100;    // all launches together, at least
  int launches = 12;  // of each process; a multiple of three lets every side have every place in memory equally often
  int warmups = 5;    // rounds of a launch that are not counted, at most: they end early once a second has gone
  bool cold = false;  // every tensor of a call is taken out of the caches before it
  Device device = kCpu;
  int threads = 1;
  uint64_t seed = 0;
  double sample_s = 100e-6;  // calls are made several times, each on other inputs, until a sample is at least so long
  int64_t timeout_ns = int64_t{30} * 1000000000;
  double budget_s = 60;  // no new round after this
  // More launches for so long while the interval is wide, up to four times the pairs; three times as long, and as many,
  // where one call fills a sample.
  double sample_on_s = 0;
  const InputMaker* inputs = &contract_inputs();
  std::function<double()> core_chain = chain_ns;  // what tells how fast a core's clock is now
  // Called before every launch, while no runner lives, with the calls of a sample: a time to measure the machine.
  std::function<void(int calls_per_sample)> between_launches = {};
  std::string baseline_library = {};  // plays the baseline instead of it: for experiments on the protocol itself
};

struct TimingResult {
  std::optional<Failure> failure;  // then there are no times worth reading
  PairedSamples samples;           // of one call, in ns
  PairedSamples control;
  PairedResult paired;
  int calls_per_sample = 0;
  double could_hide_ns = 0;  // of one call, at most: no gain within it is ranked
  double exchange_ns = 0;    // of one sample: waking and stopping a runner, which is taken off
  // One call alone in its sample, median: whoever is much quicker with others around it looks ahead.
  double baseline_alone_ns = 0, candidate_alone_ns = 0;
  int64_t prepare_ns = 0;         // of the candidate
  int64_t baseline_peak_kib = 0;  // of the whole process
  int64_t candidate_peak_kib = 0;
  std::vector<Protection> protections;
  int64_t elements_checked = 0;  // of timed outputs
  int calls_judged = 0;          // of timed calls, whole against the oracle
  // All launches together, warm-ups included; the control's are not among them.
  std::vector<RunnerDispatch> baseline_dispatches, candidate_dispatches;
  // On a GPU.
  bool held = false;     // everything was queued before the device began, so that launching does not count
  double clock_mhz = 0;  // of the multiprocessors, median of the candidate's samples
};

// What a judgement leaves to the timing that follows it.
struct JudgedLaunch {
  Judge* judge = nullptr;              // null: one is made
  std::unique_ptr<LaunchSides> sides;  // its processes, which the first launch goes on with; null: it starts new ones
};

// `library` is the candidate's shared object; empty times the baseline against itself.
TimingResult time_pairs(const OperatorInfo& op, const Fields& init, const Workload& workload,
                        const std::string& library, const TimingOptions& options,
                        const std::function<void(double done)>& progress, JudgedLaunch judged = {});

}  // namespace fk
