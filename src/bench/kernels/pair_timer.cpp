#include "bench/kernels/pair_timer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "bench/kernels/fresh_inputs.h"
#include "bench/kernels/output_check.h"
#include "bench/kernels/turns.h"
#include "candidate/runner/call_memory.h"
#include "candidate/runner/device_walls.h"
#include "core/device_runtime.h"
#include "core/rng.h"
#include "measure/cache_evict.h"
#include "measure/core_clock.h"
#include "measure/first_core.h"
#include "measure/steal_time.h"
#include "measure/timer.h"

namespace fk {
namespace {

// Who takes part in a round.
constexpr int kBaseline = 0, kCandidate = 1, kControl = 2, kSides = 3;

constexpr int kMostCallsPerSample = 64;
constexpr size_t kMostRotatingBytes = size_t{64} << 20, kMostRotatingOnGpu = size_t{2} << 30;

struct Runner {
  std::unique_ptr<RunnerProcess> process;
  int params_segment = 0, inputs_segment = 0, written_segment = 0;
};

struct Sample {
  double ns = 0, wall_ns = 0, cpu_ns = 0;
  Dropped dropped = Dropped::kNo;
};

class PairTimer {
 public:
  PairTimer(const OperatorInfo& op, const Fields& init, const Workload& workload, std::string library,
            const TimingOptions& options)
      : init_(init),
        library_(std::move(library)),
        options_(options),
        random_(options.seed, "pair timer"),
        root_(op.build(init, {})),
        inputs_(*root_, *options.inputs, workload, options.seed),
        check_(op, init, workload.dtype),
        clock_(options.core_chain) {
    params_ = share_params(*root_, *options.inputs->params(*root_, options.seed), options.device);
  }

  TimingResult run(const std::function<void(double)>& progress) {
    int launches = std::max(1, std::min(options_.launches, options_.pairs));
    Stopwatch watch;
    double asked_s = 0;  // for the pairs asked for
    for (int launch = 0; !result_.failure; ++launch) {
      if (launch == launches) asked_s = watch.elapsed_s();
      if (launch >= launches && (launch - launches) % kSides == 0 &&  // in three, every side has every place
          (watch.elapsed_s() - asked_s >= patience() * options_.sample_on_s || !too_wide()))
        break;
      if (launch >= launches && watch.elapsed_s() > options_.budget_s) break;
      if (launch % kSides == 0) {
        places_ = shuffled();
        more_ = secret_number();
      }
      int pairs = pairs_of_a_launch(launch, launches);
      result_.samples.emplace_back();
      result_.control.emplace_back();
      start(launch);
      if (result_.failure) break;
      std::optional<OnFirstCore> pinned;  // where runners start, too; only now: they would have inherited it
      if (!on_gpu()) pinned.emplace();
      warm_up();
      for (int pair = 0; pair < pairs && !result_.failure; ++pair) {
        if (watch.elapsed_s() > options_.budget_s && launch > 0) pairs = pair + 1;
        round(true, pair + 1 == pairs);
        progress(std::min(1.0, (launch + (pair + 1.0) / pairs) / launches));
      }
      drop_slow_rounds();
      finish();
    }
    if (!result_.failure) conclude();
    return std::move(result_);
  }

 private:
  // How many times as long sampling goes on, and how many times as many pairs it may take. A call that fills a sample
  // alone reaches far into caches and memory that others use too; a hundred calls of a microsecond do not.
  int patience() const { return memory_->slots() == 1 ? 3 : 1; }

  // At least its share of the pairs asked for, and some more that nobody can know of: the last one is compared whole.
  int pairs_of_a_launch(int launch, int launches) const {
    int share = options_.pairs / launches + (launch % launches < options_.pairs % launches ? 1 : 0);
    if (launch >= launches) share *= patience();  // processes have been started often enough by then
    return share + static_cast<int>(more_ % static_cast<uint64_t>(share / 2 + 1));
  }

  // Whether the interval is wider than the change it is to tell from none, and than a tenth of what was found. Its
  // width decides, and never what it says: a test repeated until it says yes says yes too often.
  bool too_wide() const {
    const size_t most = size_t{4} * static_cast<size_t>(patience());  // times the pairs asked for
    PairedOptions o;
    o.seed = options_.seed;
    PairedResult now = compare_paired(result_.samples, result_.control, o);
    double target = std::max(std::log1p(o.least_delta), std::abs(now.log_ratio) / 10);
    return needs_more(now, target, most * static_cast<size_t>(options_.pairs));
  }

  std::array<int, kSides> shuffled() {
    std::array<int, kSides> order{};
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = kSides - 1; i > 0; --i) std::swap(order[i], order[random_.below(draws_++, i + 1)]);
    return order;
  }

  bool on_gpu() const { return options_.device != kCpu; }

  // Which of the three memories a side writes to in this launch.
  int writer(int side) const { return writers_[static_cast<size_t>(side)]; }

  // Three processes, with the weights and the memory of calls mapped.
  void start(int launch) {
    // Where pages happen to lie makes a memory faster or slower than another, by 1 to 2 % here, as long as it lives. So
    // sides change places from launch to launch, and in three launches each has every place once.
    writers_ = handed_round(places_, launch);
    if (!memory_) memory_ = std::make_unique<CallMemory>(*root_, inputs_.base(), 1, kSides, options_.device);
    std::array<int, kSides> order = shuffled();
    for (int side : order) {
      RunnerOptions o;
      o.op = std::string(root_->info().name);
      o.init = init_;
      o.library = side == kCandidate ? library_ : options_.baseline_library;
      o.threads = options_.threads;
      o.timeout_ns = options_.timeout_ns;
      o.device = options_.device;
      o.walls = usable_walls(options_.device);
      o.wait_until_open = !on_gpu();  // a driver takes its time to start; on a CPU they would disturb each other
      runners_[static_cast<size_t>(side)].process = std::make_unique<RunnerProcess>(o);
    }
    for (int side : order) {
      Runner& r = runners_[static_cast<size_t>(side)];
      if (on_gpu()) r.process->open();
      r.params_segment = r.process->map(*params_);
      std::vector<TensorRef> refs;
      for (size_t i = 0; i < params_->size(); ++i) refs.push_back({r.params_segment, i});
      int64_t prepare = r.process->bind(refs);
      if (side == kCandidate) result_.prepare_ns = prepare;
      map_calls(side);
      if (note_failure(side)) return;
    }
    result_.protections = runners_[kCandidate].process->protections();
    if (!sized_) {
      choose_calls_per_sample();
      sized_ = true;
    }
  }

  void map_calls(int side) {
    Runner& r = runners_[static_cast<size_t>(side)];
    r.inputs_segment = r.process->map(memory_->inputs());
    r.written_segment = r.process->map(memory_->written(writer(side)));
    for (int slot = 0; slot < memory_->slots(); ++slot)
      r.process->plan(slot, memory_->plan(slot, r.inputs_segment, r.written_segment));
  }

  // From the time of single calls; then every call of a sample gets memory of its own.
  void choose_calls_per_sample() {
    next_inputs();
    double shortest = 1e9;
    for (int i = 0; i < 4 && !result_.failure; ++i) shortest = std::min(shortest, time_side(kBaseline, 0).ns);
    if (result_.failure) return;
    auto wanted = static_cast<int>(std::ceil(options_.sample_s * 1e9 / std::max(shortest, 1.0)));
    size_t one = memory_->inputs().size_bytes() + kSides * memory_->written(0).size_bytes();
    int affordable = static_cast<int>(
        std::max<size_t>(1, (on_gpu() ? kMostRotatingOnGpu : kMostRotatingBytes) / std::max<size_t>(one, 1)));
    int slots = std::clamp(wanted, 1, std::min(kMostCallsPerSample, affordable));
    if (slots == 1) return;
    for (Runner& r : runners_) {
      r.process->unmap(r.inputs_segment);
      r.process->unmap(r.written_segment);
    }
    memory_ = std::make_unique<CallMemory>(*root_, inputs_.base(), slots, kSides, options_.device);
    for (int side = 0; side < kSides; ++side) map_calls(side);
  }

  void warm_up() {
    Stopwatch watch;
    held_ = rounds_ = 0;
    clock_.restart();
    looks_.clear();
    for (int i = 0; i < options_.warmups && !result_.failure && watch.elapsed_s() < 1; ++i) round(false);
    // Who waits for the device in a call cannot be queued; then both sides are timed as they are launched.
    if (on_gpu() && rounds_ > 1 && 2 * held_ < rounds_) hold_ = false;
  }

  void next_inputs() {
    for (int slot = 0; slot < memory_->slots(); ++slot) {
      inputs_.next(slot);
      if (!on_gpu()) continue;
      memory_->stage_pieces(slot, inputs_.base(slot), [&](size_t tensor) { return inputs_.pieces(slot, tensor); });
    }
  }

  // What a slot's memory is filled from and held against. On a GPU that waits there, and only shapes are asked for.
  const CallData& shapes_of(int slot) { return on_gpu() ? inputs_.base() : inputs_.current(slot); }

  // All three on the same fresh inputs, in random order.
  //
  // Comparing whole outputs leaves those of two sides in other caches than the third's, and takes what was there: with
  // a comparison now and then among the timed rounds the baseline differed from itself by 1 %. So on a CPU the last
  // round of a launch is compared, and no one knows which that is. A GPU's own memory does not notice.
  void round(bool counts, bool last = false) {
    next_inputs();
    std::array<int, kSides> order = shuffled();
    auto pattern = static_cast<uint8_t>(draws_ % 2 == 0 ? 0xFF : 0x7F);
    checked_ = on_gpu() ? secret_number() % 4 == 0 : last;
    std::array<Sample, kSides> samples;
    std::optional<int64_t> stolen = on_gpu() ? std::nullopt : stolen_ticks();
    double look = on_gpu() ? 0 : clock_.look();
    for (int side : order) {
      samples[static_cast<size_t>(side)] = time_side(side, pattern);
      if (note_failure(side)) return;
    }
    if (!on_gpu()) look = std::max(look, clock_.look());
    // Counted in ticks longer than a round, so which of the three was robbed cannot be told: none of them counts.
    if (stolen && stolen_ticks().value_or(*stolen) > *stolen)
      for (Sample& sample : samples) sample.dropped = Dropped::kStealTime;
    check_round(pattern);
    if (!counts || result_.failure) return;
    const Sample &b = samples[kBaseline], &c = samples[kCandidate], &a = samples[kControl];
    auto pair = [](const Sample& x, const Sample& y) {
      return TimePair{x.ns, y.ns, x.dropped != Dropped::kNo ? x.dropped : y.dropped};
    };
    result_.samples.back().push_back(pair(b, c));
    result_.control.back().push_back(pair(b, a));
    looks_.push_back(look);
    for (int side = 0; side < kSides; ++side) {
      const Sample& sample = samples[static_cast<size_t>(side)];
      walls_[static_cast<size_t>(side)].push_back(sample.wall_ns);
      exchanges_[static_cast<size_t>(side)].push_back(sample.wall_ns - sample.ns);
      unclaimed_[static_cast<size_t>(side)].push_back(sample.cpu_ns - sample.ns);
    }
  }

  // A CPU does not say how fast its clock is; that of a GPU is read in its stream.
  void drop_slow_rounds() {
    if (on_gpu() || result_.failure) return;
    auto drop = [](TimePair& pair) {
      if (pair.dropped == Dropped::kNo) pair.dropped = Dropped::kSlowClock;
    };
    for (size_t i = 0; i < looks_.size(); ++i) {
      if (!clock_.slow(looks_[i])) continue;
      drop(result_.samples.back()[i]);
      drop(result_.control.back()[i]);
    }
  }

  Sample time_side(int side, uint8_t pattern) {
    Runner& r = runners_[static_cast<size_t>(side)];
    std::vector<int> calls(static_cast<size_t>(memory_->slots()));
    std::iota(calls.begin(), calls.end(), 0);
    // Inputs are written anew for each side, so that all find them in the same state of the caches.
    RunMode mode{.key = secret_number() >> 1, .hold = hold_, .cold = options_.cold};
    for (int slot : calls) {
      memory_->reveal(slot, shapes_of(slot), mode.key);
      memory_->reset(slot, writer(side), shapes_of(slot), pattern);
    }
    if (on_gpu()) {
      DeviceJudging& gpu = device_runtime(options_.device).judging();
      if (options_.cold) gpu.flush_l2();
      memory_->settle();
      if (options_.cold) gpu.reset_persisting_l2();
    } else if (options_.cold) {
      auto evict = [](const SharedTensors& t) {
        for (size_t i = 0; i < t.size(); ++i) evict_from_caches(t.view(i).data(), t.places()[i].size_bytes());
      };
      evict(memory_->inputs());
      evict(memory_->written(writer(side)));
      evict(*params_);
    }
    int64_t cpu_before = r.process->cpu_time_ns();
    std::optional<int64_t> waited_before = on_gpu() ? std::nullopt : r.process->waited_ns();
    RunTimes t = r.process->run(calls, mode);
    bool taken = core_was_taken(*r.process, t, waited_before);  // at once: from here on it waits for us
    if (t.refused) r.process->fail(*t.refused);
    std::vector<uint64_t> at_return;
    if (side == kCandidate && checked_) at_return = fingerprints(side);
    if (side == kCandidate && on_gpu() && !r.process->failure()) check_on_gpu(*r.process, t, at_return);
    if (!r.process->failure())
      if (std::optional<Failure> late = r.process->wait_for_rest()) r.process->fail(*late);
    if (side == kCandidate && checked_ && fingerprints(side) != at_return)
      r.process->fail(
          {Verdict::kRewardHack, "Its outputs changed after a timed call had returned: the work is done late."});
    (side == kCandidate ? result_.candidate_peak_kib : result_.baseline_peak_kib) = t.peak_kib;
    auto n = static_cast<double>(calls.size());
    auto cpu = static_cast<double>(r.process->cpu_time_ns() - cpu_before);  // at rest before and after, so it is exact
    Dropped dropped = taken ? Dropped::kContextSwitch : Dropped::kNo;
    if (on_gpu()) {
      double nominal = device_runtime(options_.device).facts().clock_mhz;
      if (t.clock_mhz > 0 && t.clock_mhz < kSlowestClock * nominal) dropped = Dropped::kSlowClock;
      if (side == kCandidate) {
        ++rounds_;
        held_ += t.held ? 1 : 0;
        if (t.clock_mhz > 0) clocks_.push_back(t.clock_mhz);
      }
    }
    return {static_cast<double>(t.runner_ns) / n, static_cast<double>(t.wall_ns) / n, cpu / n, dropped};
  }

  // Whether other programs had the core for long enough to matter. A call of many milliseconds is always interrupted.
  static bool core_was_taken(const RunnerProcess& process, const RunTimes& t, std::optional<int64_t> waited_before) {
    constexpr double kMatters = 0.01;  // of the time: what counts as a difference
    if (t.switches == 0) return false;
    std::optional<int64_t> waited = process.waited_ns();
    if (!waited || !waited_before) return true;
    return static_cast<double>(*waited - *waited_before) > kMatters * static_cast<double>(t.runner_ns);
  }

  // What sealed memory and the return of a call tell on the CPU: inputs and weights are as they were, and nothing was
  // written any more when the stream had passed the calls.
  void check_on_gpu(RunnerProcess& process, const RunTimes& t, const std::vector<uint64_t>& at_return) {
    std::optional<Failure> found = check_params(*params_);
    for (int slot = 0; slot < memory_->slots() && !found; ++slot) found = memory_->check_inputs(slot, shapes_of(slot));
    if (!found && checked_ && t.at_stop != at_return)
      found = Failure{Verdict::kRewardHack,
                      "Its outputs changed after the work on its stream was done: it works beside the stream it was "
                      "given."};
    if (found) process.fail(*found);
  }

  // Outputs of the candidate beside the baseline's: all of every one where the GPU can compare them, else a stretch of
  // every one, and all of it where that looks wrong and in rounds chosen in secret.
  void check_round(uint8_t pattern) {
    const int candidate = writer(kCandidate), baseline = writer(kBaseline);
    for (int slot = 0; slot < memory_->slots() && !result_.failure; ++slot) {
      std::optional<Failure> found = memory_->check_margins(slot, candidate, pattern);
      if (!found && !on_gpu()) found = memory_->check_inputs(slot, inputs_.current(slot));
      std::optional<bool> agree = check_.agree_on_gpu(*memory_, slot, candidate, baseline);
      if (!found && agree == true) {
        ++result_.outputs_checked;
        continue;
      }
      const CallData& data = inputs_.current(slot);
      bool whole = agree.has_value() || checked_ ||
                   check_.looks_wrong(*memory_, slot, data, candidate, baseline, secret_number());
      if (!found && whole) {
        found = check_.compare(*memory_, slot, data, candidate, baseline);
        ++result_.outputs_checked;
      }
      if (found) result_.failure = found;
    }
  }

  std::vector<uint64_t> fingerprints(int side) const {
    std::vector<uint64_t> all;
    for (int slot = 0; slot < memory_->slots(); ++slot)
      for (uint64_t print : memory_->fingerprints(slot, writer(side))) all.push_back(print);
    return all;
  }

  bool note_failure(int side) {
    const std::optional<Failure>& f = runners_[static_cast<size_t>(side)].process->failure();
    if (!f) return false;
    result_.failure = f;
    if (side != kCandidate)
      result_.failure = Failure{Verdict::kInvalidTask, fmt::format("The baseline failed: {}", f->sentence)};
    return true;
  }

  void finish() {
    for (int side = 0; side < kSides && !result_.failure; ++side) {
      RunnerProcess& process = *runners_[static_cast<size_t>(side)].process;
      if (side != kControl)
        add(side == kCandidate ? result_.candidate_dispatches : result_.baseline_dispatches, process.dispatches());
      process.finish();
      note_failure(side);
    }
    for (Runner& r : runners_) r.process.reset();
  }

  static void add(std::vector<RunnerDispatch>& sum, const std::vector<RunnerDispatch>& more) {
    for (const RunnerDispatch& d : more) {
      auto same = std::find_if(sum.begin(), sum.end(), [&](const RunnerDispatch& s) {
        return s.op == d.op && s.implementation == d.implementation && s.rows_up_to == d.rows_up_to;
      });
      if (same == sum.end())
        sum.push_back(d);
      else
        same->calls += d.calls;
    }
  }

  void conclude() {
    PairedOptions o;
    o.seed = options_.seed;
    result_.calls_per_sample = memory_->slots();
    result_.paired = compare_paired(result_.samples, result_.control, o);
    result_.baseline_wall_ns = median(walls_[kBaseline]);
    result_.candidate_wall_ns = median(walls_[kCandidate]);
    result_.held = on_gpu() && hold_;
    result_.clock_mhz = clocks_.empty() ? 0 : median(clocks_);
    compare_clocks();
  }

  // The runner's clock is in the candidate's hands. Ours brackets the same work, and the kernel counts its CPU time;
  // what these have more is the exchange, the same for both sides. Other programs only ever make an exchange longer, so
  // its shortest ones tell; and where they interrupt a call it claims more than it used, so there the largest ones do.
  void compare_clocks() {
    if (result_.paired.dropped[0] == 0) return;  // no pair counts: there is no time to doubt, and nothing is ranked
    auto more = [&](int side, const std::array<std::vector<double>, kSides>& of, double q) {
      return quantile(of[static_cast<size_t>(side)], q) - quantile(of[kBaseline], q);
    };
    double waited = more(kCandidate, exchanges_, 0.05), worked = more(kCandidate, unclaimed_, 0.75);
    double ns = result_.paired.candidate.median;
    // Several threads use more CPU time than a clock shows, and a GPU uses none; then ours is alone, and has to be
    // surer.
    bool alone = options_.threads > 1 || on_gpu();
    double allowed = std::max((alone ? 30e3 : 10e3) / memory_->slots(), (alone ? 0.05 : 0.03) * ns);
    auto beyond = [&](double limit) { return waited > limit && (alone || worked > limit); };
    if (!beyond(allowed)) return;
    // The control is the baseline again: by what its clocks seem to differ, with so few samples on this machine,
    // anyone's may. It may also have been lucky, so the spread of the quick exchanges counts too; and a handful of
    // samples accuses nobody.
    constexpr double kSurer = 3;
    constexpr size_t kLeastSamples = 20;
    auto spread = [&](int side) {
      const std::vector<double>& of = exchanges_[static_cast<size_t>(side)];
      return quantile(of, 0.25) - quantile(of, 0.05);
    };
    double noise = std::max({kSurer * std::abs(more(kControl, exchanges_, 0.05)),
                             kSurer * std::abs(more(kControl, unclaimed_, 0.75)), spread(kBaseline), spread(kControl)});
    bool sure = exchanges_[kBaseline].size() >= kLeastSamples && beyond(noise);
    // Then nobody is accused; but a time that much of which may have been hidden ranks nothing either.
    constexpr double kMuch = 0.15;
    if (sure)
      result_.failure =
          Failure{Verdict::kClockMismatch,
                  fmt::format("Its own clock says {:.1f} us for a call; ours says at least {:.1f} us more, and the "
                              "kernel counted {:.1f} us more.",
                              ns * 1e-3, waited * 1e-3, worked * 1e-3)};
    else if (beyond(kMuch * ns) && result_.paired.invalid.empty())
      result_.paired.invalid = fmt::format(
          "Its own clock says {:.1f} us for a call and ours {:.1f} us more, but on this busy machine the baseline's "
          "differ as well, so the time cannot be checked.",
          ns * 1e-3, waited * 1e-3);
  }

  const Fields init_;
  std::string library_;
  TimingOptions options_;
  Stream random_;
  uint64_t draws_ = 0;
  std::unique_ptr<Node> root_;  // for shapes; never called
  FreshInputs inputs_;
  OutputCheck check_;
  std::unique_ptr<SharedTensors> params_;
  std::unique_ptr<CallMemory> memory_;
  bool sized_ = false;
  bool checked_ = false;       // this round's outputs are compared whole
  bool hold_ = true;           // on a GPU: calls are queued before it starts on them
  int rounds_ = 0, held_ = 0;  // of this launch, by the candidate
  std::vector<double> clocks_;
  ClockWatch clock_;
  std::vector<double> looks_;  // of this launch: the slower of the two around each round that counts
  std::array<Runner, kSides> runners_;
  std::array<int, kSides> places_{};   // for three launches: how the memories are handed round
  std::array<int, kSides> writers_{};  // the memory of each side in this launch
  uint64_t more_ = 0;                  // for three launches: leads to how many pairs they have more than asked for
  std::array<std::vector<double>, kSides> walls_;
  std::array<std::vector<double>, kSides> exchanges_, unclaimed_;  // our time and CPU time beyond the runner's
  TimingResult result_;
};

}  // namespace

TimingResult time_pairs(const OperatorInfo& op, const Fields& init, const Workload& workload,
                        const std::string& library, const TimingOptions& options,
                        const std::function<void(double done)>& progress) {
  return PairTimer(op, init, workload, library, options).run(progress);
}

}  // namespace fk
