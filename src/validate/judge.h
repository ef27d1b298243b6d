// judge: decides whether a candidate computes an operator, by calling it on unpredictable data and comparing every
// written element with the float64 oracle.
//
// One judgement makes a few dozen calls: input families, random shapes, replays at old and new addresses, other
// weights, the same data again. All of it follows from one secret seed, so the same seed repeats a judgement call by
// call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "candidate/subject.h"
#include "candidate/verdict.h"
#include "core/json_fwd.h"
#include "ops/registry.h"
#include "validate/call_check.h"
#include "validate/input_maker.h"
#include "validate/mismatch.h"
#include "validate/reference.h"

namespace fk {

struct JudgeOptions {
  uint64_t seed = 0;                    // secret: chosen at random by the caller, never shown to a subject
  double family_oracle_seconds = 0.003; // time limit of the oracle for each call on small shapes
  double full_oracle_seconds = 3;       // time limit of the oracle for the workload's own shape
  double seconds = 30;                  // after this, the remaining optional probes are skipped, with a note
  int calibration_calls = 3;            // of the baseline alone, first: to measure its typical error
  int random_shapes = 4;
  int repeats = 6;  // more calls of one shape at the end, for kernels that are correct only in the first calls
  int draws = 16;   // calls of the distribution test, only for operators that sample
  bool deterministic = true;  // false: the candidate declares that equal calls may differ in their bits
  bool stop_at_first = true;  // false: continue and collect every failure
  std::optional<int> last_call = std::nullopt;  // stop after the call of this index: to repeat a judged call
  const InputMaker* inputs = &contract_inputs();
};

// One call of a judgement: what is needed to repeat it.
struct Probe {
  int call = 0;        // index within the judgement
  std::string family;  // "scaled x64", "random shape", "same addresses, new data"
  Workload workload;
  uint64_t seed = 0;  // of the call's inputs
};

struct JudgedFailure {
  Verdict verdict = Verdict::kPassed;
  std::string sentence;        // in plain words
  std::string tensor;          // the argument, or "the state 'key_cache'"; empty if no single tensor is wrong
  std::optional<Shape> worst;  // index of the worst element
  double got = 0;              // its value
  double want = 0;             // its reference
  std::optional<Mismatch> mismatch = {};  // where the wrong elements are, if values are wrong
  Probe probe;
};

struct Judgement {
  Verdict verdict = Verdict::kCrashed;  // fail closed: a candidate does not pass without a decision
  std::string sentence;
  std::vector<JudgedFailure> failures;  // the first decides
  int calls = 0;                        // of the candidate
  int checks = 0;                       // tensors compared
  int64_t elements = 0;                 // elements compared
  double worst_ratio = 0;               // largest error / its bound over all passed checks
  std::vector<std::string> notes;       // what was skipped or shrunk, and why
  uint64_t seed = 0;

  bool passed() const { return verdict == Verdict::kPassed; }
};

// Judges one task. run() may be called several times, each time with other processes.
class Judge {
 public:
  Judge(const OperatorInfo& info, const Fields& init, const Workload& workload, const JudgeOptions& options);
  ~Judge();

  uint64_t seed() const;
  // The float64 oracle, bound to the first set of weights.
  Reference& oracle();
  // Errors of the baseline on usual inputs, in contract tolerances, by tensor; empty before the first judgement.
  const BaselineRatios& typical_errors() const;

  Judgement run(Subject& candidate, Subject& baseline);

  // A few calls like those of a judgement, in a process that has the first set of weights bound
  // (options.inputs->params) and will be timed: the process cannot tell whether it is judged or timed. `secret` chooses
  // the calls.
  std::optional<Failure> again(Subject& candidate, Subject& baseline, uint64_t secret, double seconds_at_most);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

Judgement judge(const OperatorInfo& info, const Fields& init, const Workload& workload, Subject& candidate,
                Subject& baseline, const JudgeOptions& options);

Json to_json(const Judgement& judgement);
Json to_json(const Workload& workload);

}  // namespace fk
