#include "validate/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "core/rng.h"
#include "ops/formats/weight_format.h"
#include "sandbox/call_memory.h"
#include "validate/call_check.h"
#include "validate/explain.h"
#include "validate/probe_plan.h"
#include "validate/reference.h"

namespace fk {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kLargeWeights = 20'000'000;  // elements; rewriting them takes about a second
constexpr int64_t kSlowWeights = 1'000'000;    // generating so many takes longer than a call
constexpr size_t kRemembered = 4;              // earlier outcomes that a wrong one is compared with
constexpr int64_t kRememberedBytes = 64 << 20;

BuildOptions oracles_only() {
  BuildOptions options;
  options.oracle = true;
  return options;
}

std::string workload_text(const Workload& w) {
  return fmt::format("{} token{} in {} sequence{}, {}", w.num_tokens(), w.num_tokens() == 1 ? "" : "s",
                     w.num_sequences(), w.num_sequences() == 1 ? "" : "s", dtype_name(w.dtype));
}

// Other numbers of the same distribution: generated again, or, if that would take long, the same numbers in reverse
// order.
std::vector<Tensor> other_weights(const Node& tree, const std::vector<Tensor>& weights, uint64_t seed, bool slow) {
  if (!slow) return make_params(tree, seed);
  std::vector<Tensor> others;
  std::vector<ParamSpec> specs = collect_params(tree);
  for (size_t w = 0; w < weights.size(); ++w) {
    const Tensor& t = weights[w];
    others.emplace_back(t.view().spec());
    // Of a quantised matrix whole blocks: the bytes of one have different meanings.
    size_t size = specs[w].format.empty() ? dtype_size(t.view().dtype())
                                          : static_cast<size_t>(weight_format(specs[w].format).block_bytes);
    size_t n = t.view().size_bytes() / size;
    const auto* from = static_cast<const std::byte*>(t.view().data());
    auto* to = static_cast<std::byte*>(others.back().view().data());
    for (size_t i = 0; i < n; ++i) std::copy_n(from + i * size, size, to + (n - 1 - i) * size);
  }
  return others;
}

class Judging {
 public:
  Judging(const OperatorInfo& info, const Fields& init, const Workload& workload, const JudgeOptions& options)
      : options_(options),
        workload_(workload),
        tree_(info.build(init, oracles_only())),
        reference_(info, init, workload) {
    result_.seed = options.seed;
    if (Workload possible = info.possible(init, workload); !(possible == workload))
      throw Error("{} cannot have {}; it can have {}.", info.name, workload_text(workload), workload_text(possible));
    int64_t elements = 0;
    for (const ParamSpec& p : collect_params(*tree_)) elements += p.spec.shape.numel();
    shapes_.large_weights = elements > kLargeWeights;
    if (shapes_.large_weights) note("Weights are large, so families that bring their own were left out.");
    shapes_.small = shrink(info, init, workload, options.family_oracle_seconds);
    shapes_.full = shrink(info, init, workload, options.full_oracle_seconds);
    shapes_.full_differs = !(shapes_.small == shapes_.full);
    if (!(shapes_.full == workload))
      note(fmt::format("The oracle would need about {:.1f} s for {}; the largest call judged has {}.",
                       reference_seconds(info, init, workload), workload_text(workload), workload_text(shapes_.full)));
    shapes_.special = has_special_values(options.inputs->specs(*tree_, shapes_.small));
    shapes_.recorded = options.inputs->has_recorded() && shapes_.full == workload;
    if (options.inputs->has_recorded() && !shapes_.recorded)
      note("The scenario's own values are of its whole workload, so they were not judged against the oracle.");
    slow_weights_ = elements > kSlowWeights;
  }

  uint64_t seed() const { return options_.seed; }
  const BaselineRatios& typical_errors() const { return typical_; }

  Reference& oracle() {
    if (std::exchange(bound_, "set 0") != "set 0") reference_.bind(weights(0));
    return reference_;
  }

  Judgement run(Subject& candidate, Subject& baseline) {
    call_on(candidate, baseline);
    again_ = false;
    // Checked first, before anything takes time: a candidate that does not support the workload itself cannot pass.
    if (auto refusal = refusal_of_workload()) {
      fail({.verdict = refusal->verdict, .sentence = refusal->sentence},
           {result_.calls, "the workload's own shape", workload_, 0});
      decide();
      return std::move(result_);
    }
    // A candidate may support some shapes only: if it refuses the small ones, it is judged on its own shapes.
    if (calibrate_baseline() && !make_calls() && refuses_small_) {
      note("It refuses small calls, so every family was judged on the workload's own shape.");
      shapes_.small = shapes_.full;
      make_calls();
    }
    if (result_.failures.empty() && tree_->info().judge != nullptr) distribution();
    if (out_of_time_ > 0)
      note(fmt::format("{} optional calls were left out after {:g} s.", out_of_time_, options_.seconds));
    decide();
    return std::move(result_);
  }

  std::optional<Failure> again(Subject& candidate, Subject& baseline, uint64_t secret, double seconds_at_most) {
    call_on(candidate, baseline);
    again_ = true;
    result_ = {};
    oracle();
    refusal_of_workload();  // asked in a judgement too
    if (typical_.empty() && !calibrate_baseline()) return first_failure();
    JudgeOptions drawn = options_;
    drawn.seed = secret;
    std::vector<PlannedCall> calls = planned(drawn);
    std::erase_if(calls, [&](const PlannedCall& call) {
      return call.family->weights != nullptr || call.recorded ||
             (shapes_.full_differs && call.workload == shapes_.full);
    });
    Stream order(secret, "which calls again");
    const size_t most = std::min<size_t>(calls.size(), 2 + order.below(calls.size(), 5));
    for (size_t i = 0; i < most; ++i) {
      std::swap(calls[i], calls[i + order.below(i, calls.size() - i)]);
      calls[i].weights = 0;
      calls[i].essential = false;
      if (!step(calls[i]) || seconds() - seconds_of(candidate_time_) > seconds_at_most) break;
    }
    return first_failure();
  }

 private:
  // Shapes are drawn without knowing the operator.
  std::vector<PlannedCall> planned(const JudgeOptions& options) const {
    std::vector<PlannedCall> calls = plan_calls(shapes_, options);
    for (PlannedCall& call : calls) call.workload = tree_->info().possible(tree_->init(), call.workload);
    return calls;
  }

  // Sets the subjects of the next calls, and resets what was recorded about the earlier ones.
  void call_on(Subject& candidate, Subject& baseline) {
    candidate_ = &candidate;
    baseline_ = &baseline;
    data_.reset();
    truth_.reset();
    earlier_.clear();
    start_ = Clock::now();
    candidate_time_ = {};
  }

  // The candidate's. The baseline is asked too: its memory is then mapped as often, at the same addresses.
  std::optional<Failure> refusal_of_workload() {
    const CallData shapes = options_.inputs->make_shapes(*tree_, workload_);
    baseline_->refusal(shapes);
    return candidate_->refusal(shapes);
  }

  std::optional<Failure> first_failure() const {
    if (result_.failures.empty()) return std::nullopt;
    return Failure{result_.failures.front().verdict, result_.failures.front().sentence};
  }

  // The two sets of weights, generated on first use.
  const std::vector<Tensor>& weights(size_t set) {
    SharedParams& known = weights_[set];
    if (!known)
      known = set == 0 ? options_.inputs->params(*tree_, options_.seed)
                       : std::make_shared<const std::vector<Tensor>>(
                             other_weights(*tree_, weights(0), options_.seed + 1, slow_weights_));
    return *known;
  }

  // False if the judgement ended early.
  bool make_calls() {
    for (const PlannedCall& call : planned(options_)) {
      if (!call.essential && seconds() > options_.seconds) {
        ++out_of_time_;
        continue;
      }
      if (!step(call) || at_end()) return false;
    }
    return true;
  }

  // Whether the judgement continues after the candidate refused a call. What it took in the first judgement it has to
  // take again, or it would choose what is checked.
  bool refused(const PlannedCall& call, const Failure& refusal, const Probe& probe) {
    if (call.workload == shapes_.full || (again_ && (call.workload == shapes_.small || !refuses_shapes_))) {
      fail({.verdict = refusal.verdict, .sentence = refusal.sentence}, probe);
      return false;
    }
    if (call.workload == shapes_.small) {
      refuses_small_ = true;
      return false;
    }
    refuses_shapes_ = true;
    note(fmt::format("'{}' was left out: {}", call.label, refusal.sentence));
    return true;
  }

  void note(std::string text) { result_.notes.push_back(std::move(text)); }
  static double seconds_of(Clock::duration time) { return std::chrono::duration<double>(time).count(); }
  double seconds() const { return seconds_of(Clock::now() - start_); }
  bool at_end() const { return options_.last_call && result_.calls > *options_.last_call; }

  // Measures the baseline's error on a few typical calls, so that bounds do not depend on a single call. False if
  // weights could not be bound.
  bool calibrate_baseline() {
    for (int i = 0; i < options_.calibration_calls && seconds() < options_.seconds / 4; ++i) {
      PlannedCall call{.label = "calibration",
                       .family = &standard_family(),
                       .workload = shapes_.small,
                       .seed = stream_key(options_.seed + static_cast<uint64_t>(i), "calibration")};
      if (!bind(call)) return false;
      make_truth(call);
      // What the candidate does wrong here is found in later calls, which may replay these.
      if (CallOutcome outcome = candidate_->call(*data_, call.placement); !outcome.failure) {
        const bool right = truth_->unusable().empty() && !truth_->check(outcome).fault;
        remember(std::move(outcome), call, right);
      }
      if (!truth_->unusable().empty()) continue;
      for (const auto& [name, ratio] : truth_->ratios()) typical_[name] = std::max(typical_[name], ratio);
    }
    truth_.reset();
    return true;
  }

  // False if the judgement has ended.
  bool step(const PlannedCall& call) {
    if (!bind(call)) return false;
    const bool usable = prepare(call);
    const Clock::time_point called = Clock::now();
    CallOutcome outcome = candidate_->call(*data_, call.placement);
    candidate_time_ += Clock::now() - called;
    if (!usable) return result_.failures.empty() || !options_.stop_at_first;
    Probe probe{result_.calls++, call.label, call.workload, call.seed};
    if (outcome.failure && outcome.failure->verdict == Verdict::kRefused) return refused(call, *outcome.failure, probe);
    CallCheckResult checked = truth_->check(outcome);
    result_.checks += checked.checks;
    result_.elements += checked.elements;
    result_.worst_ratio = std::max(result_.worst_ratio, checked.worst_ratio);
    if (checked.fault) {
      fail(*checked.fault, probe, outcome);
      if (outcome.failure) return false;  // the process has ended
    } else if (!outcome.differing.empty()) {
      check_differing(outcome, probe);
    } else if (call.same_bits && options_.deterministic && !earlier_.empty() && earlier_.back().has_data_of(call)) {
      ++result_.checks;
      if (auto tensor = differing_bits(*truth_, outcome, earlier_.back().outcome))
        fail({.verdict = Verdict::kNondeterministic,
              .sentence = fmt::format("{} differs in its bits from the call before, which had the same data.", *tensor),
              .tensor = *tensor},
             probe, outcome);
    }
    remember(std::move(outcome), call, !checked.fault);
    return result_.failures.empty() || !options_.stop_at_first;
  }

  // Calls of one request had the same data but wrote different bits.
  void check_differing(const CallOutcome& outcome, const Probe& probe) {
    for (const CallOutcome& other : outcome.differing)
      if (CallCheckResult checked = truth_->check(other); checked.fault) return fail(*checked.fault, probe, other);
    if (!options_.deterministic) return;
    if (auto tensor = differing_bits(*truth_, outcome.differing.front(), outcome))
      fail({.verdict = Verdict::kNondeterministic,
            .sentence = fmt::format("{} differs in its bits between two calls with the same data.", *tensor),
            .tensor = *tensor},
           probe, outcome);
  }

  bool bind(const PlannedCall& call) {
    bool own = call.family->weights != nullptr;
    std::string wanted = own ? std::string(call.family->name) : fmt::format("set {}", call.weights);
    if (wanted == bound_) return true;
    if (own) {
      family_weights_.clear();
      for (const Tensor& t : weights(1)) family_weights_.push_back(copy_of(t));
      apply_to_weights(*call.family, collect_params(*tree_), family_weights_, call.seed);
    }
    const std::vector<Tensor>& bound = own ? family_weights_ : weights(static_cast<size_t>(call.weights));
    std::optional<Failure> failed = baseline_->bind(bound);
    if (failed) {
      fail({.verdict = Verdict::kInvalidTask,
            .sentence = fmt::format("The baseline could not be bound to its weights: {}", failed->sentence)},
           {result_.calls, call.label, call.workload, call.seed});
      return false;
    }
    failed = candidate_->bind(bound);
    if (failed) {
      fail({.verdict = failed->verdict, .sentence = failed->sentence},
           {result_.calls, call.label, call.workload, call.seed});
      return false;
    }
    reference_.bind(bound);
    bound_ = std::move(wanted);
    truth_.reset();
    return true;
  }

  // Data, reference and bounds of the call, unless they are those of the previous call.
  void make_truth(const PlannedCall& call) {
    const bool same_data =
        data_ != nullptr && data_seed_ == call.seed && data_family_ == call.family && data_workload_ == call.workload;
    if (!same_data) {
      const InputMaker& maker = *options_.inputs;
      data_ = std::make_unique<CallData>(call.recorded ? maker.make_recorded(*tree_, call.workload, call.seed)
                                                       : maker.make(*tree_, call.workload, call.seed));
      apply_to_inputs(*call.family, *tree_, maker.specs(*tree_, call.workload), *data_, call.seed);
      data_seed_ = call.seed;
      data_family_ = call.family;
      data_workload_ = call.workload;
      truth_.reset();
    }
    // Also where the truth is known: processes with different histories differ in speed, by 1 % on some machines, and
    // the control has the baseline's history.
    CallOutcome baseline = baseline_->call(*data_, call.placement);
    if (truth_ == nullptr)
      truth_ = std::make_unique<CallTruth>(*tree_, call.workload, *data_, reference_, baseline, call.family->exact,
                                           typical_);
  }

  // False if these data cannot judge a candidate.
  bool prepare(const PlannedCall& call) {
    make_truth(call);
    if (truth_->unusable().empty()) return true;
    if (call.essential)
      fail({.verdict = Verdict::kInvalidTask,
            .sentence = fmt::format("These inputs cannot judge a candidate: {}.", truth_->unusable())},
           {result_.calls, call.label, call.workload, call.seed});
    else
      note(fmt::format("'{}' was left out: {}.", call.label, truth_->unusable()));
    return false;
  }

  void fail(const CallFault& fault, const Probe& probe, const CallOutcome& outcome) {
    CallFault explained = fault;
    bool of_values = fault.verdict == Verdict::kIncorrectNumerical || fault.verdict == Verdict::kIncorrectState;
    if (std::optional<CallOutcome> later = of_values ? candidate_->look_again() : std::nullopt;
        later && later->differing.empty() && !truth_->check(*later).fault) {
      explained.verdict = Verdict::kRewardHack;
      explained.sentence += " A moment after the call had returned it was right: the work was finished too late.";
      return fail(explained, probe);
    }
    std::optional<Mismatch> mismatch = of_values ? mismatch_in(fault.tensor, outcome) : std::nullopt;
    if (of_values && tree_->info().judge == nullptr) {
      std::vector<EarlierCall> earlier;
      for (const Remembered& r : earlier_)
        earlier.push_back({.outcome = &r.outcome,
                           .same_data = r.seed == data_seed_ && r.family == data_family_,
                           .right = r.right,
                           .similar_data = r.seed == data_seed_});
      if (auto why = explain(*truth_, outcome, earlier, stale_references())) {
        // An explanation of the whole tensor is better than a pattern of its wrong elements.
        if (mismatch) mismatch->pattern = why->sentence;
        explained.sentence += " " + why->sentence;
        if (why->replay) explained.verdict = Verdict::kRewardHack;
      } else if (mismatch && !mismatch->pattern.empty()) {
        explained.sentence += " " + mismatch->pattern;
      }
    }
    fail(explained, probe, std::move(mismatch));
  }

  // Where the wrong elements of a tensor are, and their values.
  std::optional<Mismatch> mismatch_in(const std::string& tensor, const CallOutcome& outcome) const {
    for (const CallTruth::Item& item : truth_->items()) {
      const Tensor* got = written_tensor(outcome, item);
      if (item.name != tensor || got == nullptr) continue;
      std::vector<const Tensor*> earlier;
      for (const Remembered& r : earlier_)
        if (const Tensor* old = written_tensor(r.outcome, item);
            old != nullptr && !(r.seed == data_seed_ && r.family == data_family_))
          earlier.push_back(old);
      // States contain their old values before a call, not poison.
      return find_mismatch({item, *got, item.is_state ? std::nullopt : outcome.poison, earlier});
    }
    return std::nullopt;
  }

  void fail(const CallFault& fault, const Probe& probe, std::optional<Mismatch> mismatch = std::nullopt) {
    result_.failures.push_back(
        {.verdict = fault.verdict,
         .sentence = fmt::format("{} on '{}' ({}), call {}: {}", tree_->info().name, probe.family,
                                 workload_text(probe.workload), probe.call, fault.sentence),
         .tensor = fault.tensor,
         .worst = fault.worst,
         .got = fault.got,
         .want = fault.want,
         .mismatch = std::move(mismatch),
         .probe = probe});
  }

  // The expected results of the current call with the sets of weights that are not bound.
  std::vector<Expected> stale_references() {
    std::vector<Expected> stale;
    if (weights(0).empty()) return stale;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (bound_ == fmt::format("set {}", i)) continue;
      reference_.bind(weights(i));
      stale.push_back(reference_.compute(*data_));
    }
    bound_.clear();  // the reference has to be bound again
    return stale;
  }

  void remember(CallOutcome outcome, const PlannedCall& call, bool right) {
    int64_t bytes = 0;
    for (const auto& t : outcome.written) bytes += t ? static_cast<int64_t>(t->view().size_bytes()) : 0;
    earlier_.push_back({std::move(outcome), call.seed, call.family, right});
    while (earlier_.size() > (bytes > kRememberedBytes ? 1 : kRemembered)) earlier_.pop_front();
  }

  // Compares the tokens that many calls sample with those that the oracle samples from the same random numbers: single
  // tokens may differ at the edge of an interval, but the histograms must agree.
  void distribution() {
    constexpr size_t kBins = 16;
    std::vector<double> own(kBins), oracle(kBins);
    uint64_t seed = stream_key(options_.seed, "draws");
    for (int i = 0; i < options_.draws && seconds() < options_.seconds; ++i) {
      PlannedCall call{
          .label = "distribution", .family = &standard_family(), .workload = shapes_.small, .seed = seed++};
      if (!bind(call) || !prepare(call)) return;
      CallOutcome outcome = candidate_->call(*data_, Placement::kNew);
      Probe probe{result_.calls++, call.label, call.workload, call.seed};
      CallCheckResult checked = truth_->check(outcome);
      result_.checks += checked.checks;
      if (checked.fault) return fail(*checked.fault, probe, outcome);
      for (const CallTruth::Item& item : truth_->items()) {
        if (item.is_state || dtype_is_float(item.spec.dtype)) continue;  // weights are no samples
        const View &got = *written_tensor(outcome, item), &want = item.reference;
        for (int64_t k = 0; k < got.numel(); ++k) {
          size_t step = dtype_size(got.dtype()), at = static_cast<size_t>(k) * step;
          auto bin = [&](const View& v) {
            return static_cast<size_t>(
                       std::abs(load_element(static_cast<const std::byte*>(v.data()) + at, v.dtype()))) %
                   kBins;
          };
          ++own[bin(got)];
          ++oracle[bin(want)];
        }
      }
    }
    double chi_square = 0;
    for (size_t i = 0; i < kBins; ++i)
      if (own[i] + oracle[i] > 0) chi_square += (own[i] - oracle[i]) * (own[i] - oracle[i]) / (own[i] + oracle[i]);
    // Mean 15 and variance 30 for independent samples; six standard deviations above the mean is not chance.
    double limit = 15 + 6 * std::sqrt(30.0);
    ++result_.checks;
    if (!(chi_square <= limit))
      fail({.verdict = Verdict::kIncorrectNumerical,
            .sentence = fmt::format("the samples of {} calls have the wrong distribution (chi square {:.1f}, "
                                    "allowed {:.1f}).",
                                    options_.draws, chi_square, limit)},
           {result_.calls, "distribution", shapes_.small, seed});
  }

  void decide() {
    if (!result_.failures.empty()) {
      result_.verdict = result_.failures.front().verdict;
      result_.sentence = result_.failures.front().sentence;
    } else if (result_.checks == 0 || result_.elements == 0) {
      result_.verdict = Verdict::kInvalidTask;
      result_.sentence = fmt::format("No output of {} was compared, so it was not judged.", tree_->info().name);
    } else {
      result_.verdict = Verdict::kPassed;
      result_.sentence =
          fmt::format("{} calls, {} tensors and {} elements compared; the largest error is {:.2f} of what is allowed.",
                      result_.calls, result_.checks, result_.elements, result_.worst_ratio);
    }
  }

  struct Remembered {
    CallOutcome outcome;
    uint64_t seed;
    const InputFamily* family;
    bool right;

    bool has_data_of(const PlannedCall& call) const { return seed == call.seed && family == call.family; }
  };

  const JudgeOptions options_;
  const Workload workload_;
  Subject* candidate_ = nullptr;
  Subject* baseline_ = nullptr;
  std::unique_ptr<Node> tree_;
  Reference reference_;
  Judgement result_;
  PlanShapes shapes_;
  std::array<SharedParams, 2> weights_;
  bool slow_weights_ = false;
  std::vector<Tensor> family_weights_;
  std::string bound_;
  std::unique_ptr<CallData> data_;
  uint64_t data_seed_ = 0;
  const InputFamily* data_family_ = nullptr;
  Workload data_workload_;
  std::unique_ptr<CallTruth> truth_;
  BaselineRatios typical_;
  std::deque<Remembered> earlier_;
  int out_of_time_ = 0;
  bool refuses_small_ = false, refuses_shapes_ = false;  // in a judgement, not in calls made again
  bool again_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::duration candidate_time_ = {};  // of its calls since then: it must not decide how many are made
};

// JSON has no infinity and no NaN.
Json number_json(double x) { return std::isfinite(x) ? Json(x) : Json(fmt::format("{}", x)); }

}  // namespace

class Judge::Impl : public Judging {
 public:
  using Judging::Judging;
};

Judge::Judge(const OperatorInfo& info, const Fields& init, const Workload& workload, const JudgeOptions& options)
    : impl_(std::make_unique<Impl>(info, init, workload, options)) {}
Judge::~Judge() = default;

uint64_t Judge::seed() const { return impl_->seed(); }
Reference& Judge::oracle() { return impl_->oracle(); }
const BaselineRatios& Judge::typical_errors() const { return impl_->typical_errors(); }

Judgement Judge::run(Subject& candidate, Subject& baseline) { return impl_->run(candidate, baseline); }

std::optional<Failure> Judge::again(Subject& candidate, Subject& baseline, uint64_t secret, double seconds_at_most) {
  return impl_->again(candidate, baseline, secret, seconds_at_most);
}

Judgement judge(const OperatorInfo& info, const Fields& init, const Workload& workload, Subject& candidate,
                Subject& baseline, const JudgeOptions& options) {
  return Judge(info, init, workload, options).run(candidate, baseline);
}

Json to_json(const Workload& workload) {
  Json sequences = Json::array();
  for (const Sequence& s : workload.sequences) sequences.push_back({s.query_len, s.context_len});
  return {{"sequences", sequences},
          {"optional_inputs", workload.optional_inputs},
          {"dtype", dtype_name(workload.dtype)},
          {"width", workload.width}};
}

Json to_json(const Judgement& judgement) {
  Json failures = Json::array();
  for (const JudgedFailure& f : judgement.failures) {
    Json entry = {{"verdict", verdict_name(f.verdict)}, {"sentence", f.sentence}, {"tensor", f.tensor}};
    if (f.worst) {
      entry["worst"] = std::vector<int64_t>(f.worst->extents().begin(), f.worst->extents().end());
      entry["got"] = number_json(f.got);
      entry["want"] = number_json(f.want);
    }
    // Seeds as text: readers that store numbers as doubles would change them.
    entry["probe"] = {{"call", f.probe.call},
                      {"family", f.probe.family},
                      {"workload", to_json(f.probe.workload)},
                      {"seed", fmt::format("{}", f.probe.seed)}};
    failures.push_back(std::move(entry));
  }
  return {{"verdict", verdict_name(judgement.verdict)},
          {"sentence", judgement.sentence},
          {"failures", failures},
          {"calls", judgement.calls},
          {"checks", judgement.checks},
          {"elements", judgement.elements},
          {"worst_ratio", number_json(judgement.worst_ratio)},
          {"notes", judgement.notes},
          {"seed", fmt::format("{}", judgement.seed)}};
}

}  // namespace fk
