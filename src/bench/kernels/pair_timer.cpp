#include "bench/kernels/pair_timer.h"

#include <algorithm>
#include <array>
#include <optional>

#include "bench/kernels/calls_alone.h"
#include "bench/kernels/cold.h"
#include "bench/kernels/dispatch_sum.h"
#include "bench/kernels/dropped_pairs.h"
#include "bench/kernels/exchange_cost.h"
#include "bench/kernels/fresh_inputs.h"
#include "bench/kernels/round_check.h"
#include "bench/kernels/sampling.h"
#include "bench/kernels/side_weights.h"
#include "bench/kernels/turns.h"
#include "core/device_runtime.h"
#include "core/rng.h"
#include "core/thread_pool.h"
#include "measure/cache_evict.h"
#include "measure/core_clock.h"
#include "measure/first_core.h"
#include "measure/steal_time.h"
#include "measure/timer.h"
#include "sandbox/call_memory.h"
#include "sandbox/device_walls.h"

namespace fk {
namespace {

constexpr int kBaseline = LaunchSides::kBaseline, kCandidate = LaunchSides::kCandidate,
              kControl = LaunchSides::kControl, kEmpty = LaunchSides::kEmpty;
constexpr int kSides = LaunchSides::kTimed, kRunners = LaunchSides::kAll;

constexpr int kMostCallsPerSample = 512, kMostOnGpu = 64;  // a stream holds about a thousand launches
constexpr size_t kCallsAlone = 12, kCallsAloneOnGpu = 8;   // per launch and side, each alone in a sample
constexpr double kCallsAloneS = 0.05;                      // per launch, for more of them
constexpr double kSteadyCalls = 4, kSteadyNs = 1e6;        // a sample on a CPU has at least the shorter of both
constexpr double kWarmUpS = 0.008;                         // no further round after this time
constexpr size_t kExchanges = 16, kLoops = 128;            // empty samples at the start; calls of nothing in a sample
constexpr double kMostTimes = 4;                           // a candidate's part of a round, in plans (sampling.h)
constexpr double kJudgeAgainS = 0.03;  // at the end of a launch, for calls like those of a judgement
constexpr size_t kMostRotatingBytes = size_t{64} << 20, kMostRotatingOnGpu = size_t{2} << 30;

struct Mapped {  // by a process
  int inputs_segment = 0, written_segment = 0;
};

// Judged rounds between the timed ones are not timed (round_check.h).
enum class Round : uint8_t { kWarmUp, kTimed, kJudged };

struct Sample {
  double ns = 0;          // of all its calls; on a CPU with the overhead
  double outside_ns = 0;  // on a GPU: our time minus the device's
  Dropped dropped = Dropped::kNo;
};

class PairTimer {
 public:
  PairTimer(const OperatorInfo& op, const Fields& init, const Workload& workload, std::string library,
            const TimingOptions& options, JudgedLaunch judged)
      : init_(init),
        library_(std::move(library)),
        options_(options),
        random_(options.seed, "pair timer"),
        root_(op.build(init, {})),
        inputs_(*root_, *options.inputs, workload, options.seed),
        weights_(options.inputs->params(*root_, options.seed)),
        judged_(std::move(judged)),
        clock_(options.core_chain) {
    params_.emplace(*root_, *weights_, options.device);
    if (judged_.judge == nullptr) {
      JudgeOptions judging;
      judging.seed = options.seed;
      judging.inputs = options.inputs;
      own_judge_.emplace(op, init, workload, judging);
      judged_.judge = &*own_judge_;
    }
    FK_CHECK(judged_.judge->seed() == options.seed, "judged and timed weights differ");
    check_.emplace(op, *root_, workload, *judged_.judge, inputs_, options.seed);
  }

  TimingResult run(const std::function<void(double)>& progress) {
    LaunchPlan plan(options_);
    while (!result_.failure && plan.another_launch(result_, call_ns_)) {
      const int launch = plan.launch();
      if (options_.between_launches) options_.between_launches(calls_);
      if (launch % (2 * kSides) == 0) {
        places_ = shuffled<kSides>(random_, draws_);
        more_ = secret_number();
      } else if (launch % kSides == 0) {
        places_ = opposite(places_);
      }
      result_.samples.emplace_back();
      result_.control.emplace_back();
      start(launch);
      if (result_.failure) break;
      std::optional<OnFirstCore> here;  // the core of the runners; not earlier, since they would inherit it
      if (!on_gpu()) here.emplace();
      if (!sized_) choose_calls_per_sample();
      if (busy()) plan.allow_for_load();
      plan.begin_pairs(more_);
      measure_exchanges();
      warm_up();
      const auto judged_at = static_cast<int>(secret_number() % static_cast<uint64_t>(plan.sure_pairs()));
      for (bool judged = false; !result_.failure && plan.another_pair();) {
        if (plan.pair() == judged_at || secret_number() % 16 == 0 || (plan.is_last_pair() && !judged)) {
          judged = true;
          round(Round::kJudged);
        }
        if (!result_.failure) round(Round::kTimed);
        if (!result_.failure) plan.add_round(round_s_);
        progress(plan.done());
      }
      if (!on_gpu() || launch % 2 == 0) call_alone();  // on a GPU a sample takes long to prepare
      if (!on_gpu() && !result_.failure)               // a GPU's clock is read in its stream
        drop_slow_rounds(clock_, looks_, result_.samples.back(), result_.control.back());
      take_off_exchanges();
      count_dispatches();
      here.reset();
      judge_again();
      finish();
    }
    if (!result_.failure) conclude();
    return std::move(result_);
  }

 private:
  bool on_gpu() const { return options_.device != kCpu; }
  bool busy() const { return interrupted_ > 1; }  // other programs use the cores
  // The overhead is then a small part of a sample, and measuring it takes long: all calls' memory is filled for it.
  bool long_samples() const { return calls_ * call_ns_ > kSteadyNs / 2; }
  bool takes_part(int side) const { return side != kEmpty || !on_gpu(); }
  RunnerProcess& process(int side) { return sides_->process(side); }

  // The memory that a side writes to in this launch.
  int writer(int side) const { return side == kEmpty ? kEmpty : writers_[static_cast<size_t>(side)]; }

  RunnerOptions runner_options() const {
    RunnerOptions o;
    o.op = std::string(root_->info().name);
    o.init = init_;
    o.threads = options_.threads;
    o.timeout_ns = options_.timeout_ns;
    o.device = options_.device;
    o.walls = usable_walls(options_.device);
    o.wait_until_open = false;  // they start in parallel
    return o;
  }

  // Starts the processes of a launch and maps weights and the memory of calls.
  void start(int launch) {
    // The physical pages make one memory 1 to 2 % faster than another. In three launches each side uses every one once.
    writers_ = handed_round(places_, launch);
    check_->begin_launch();
    if (!memory_) memory_ = std::make_unique<CallMemory>(*root_, inputs_.base(), 1, kRunners, options_.device);
    std::array<int, kRunners> order = shuffled<kRunners>(random_, draws_);
    was_judged_ = judged_.sides != nullptr;
    sides_ = std::move(judged_.sides);
    if (!sides_)
      sides_ = std::make_unique<LaunchSides>(runner_options(),
                                             LaunchSides::Libraries{library_, options_.baseline_library}, order, true);
    for (int side : order) {
      if (!takes_part(side)) continue;
      process(side).open();
      (*sides_)[side].release();
      bind(side);
      map_calls(side);
      if (note_failure(side)) return;
    }
    result_.protections = process(kCandidate).protections();
    for (int side : {kBaseline, kCandidate}) ordered_[static_cast<size_t>(side)].begin(process(side).dispatches());
  }

  void bind(int side) {
    const SharedTensors& params = params_->of(writer(side));
    int segment = process(side).map(params);
    std::vector<TensorRef> refs;
    for (size_t i = 0; i < params.size(); ++i) refs.push_back({segment, i});
    int64_t prepare = process(side).bind(refs);
    if (side == kCandidate) result_.prepare_ns = prepare;
  }

  void map_calls(int side) {
    Mapped& m = mapped_[static_cast<size_t>(side)];
    m.inputs_segment = process(side).map(memory_->inputs());
    m.written_segment = process(side).map(memory_->written(writer(side)));
    std::vector<CallPlan> plans;
    for (int slot = 0; slot < memory_->slots(); ++slot)
      plans.push_back(memory_->plan(slot, m.inputs_segment, m.written_segment));
    process(side).plan(plans);
  }

  // Computed from the time of single calls and the spread of the overhead. Then every call of a sample gets its own
  // memory, and there are some spare slots, so that the slot of a call cannot be predicted.
  void choose_calls_per_sample() {
    sized_ = true;
    ExchangeCost exchange;
    next_inputs();
    const int one_call = 0;
    double shortest = 1e12;
    Stopwatch watch;
    constexpr double kLongS = 0.03;  // calls so long need no exact overhead
    for (size_t i = 0; i < kExchanges && (i < 4 || watch.elapsed_s() < kLongS) && !result_.failure; ++i) {
      if (!on_gpu()) exchange.add_empty(empty_sample(std::span(&one_call, 1)));
      shortest = std::min(shortest, time_side(kBaseline, std::span(&one_call, 1), 0xFF).ns);
      note_failure(kBaseline);
    }
    if (result_.failure) return;
    call_ns_ = std::max(shortest - exchange.typical_ns(), 1.0);
    double spread = exchange.spread_ns();
    // Larger memory evicts more of the caches, so that the spread of the overhead is larger too.
    for (int turn = 0; turn < 3 && take_memory(spread) && !result_.failure; ++turn) {
      for (int side = 0; side < kRunners; ++side)
        if (takes_part(side)) map_calls(side);
      if (on_gpu()) return;
      spread = spread_in_rounds();
    }
    // So that other programs interrupt fewer of them.
    if (busy()) calls_ = std::min(calls_, fk::calls_per_sample(call_ns_, spread, options_.sample_s * 1e9));
  }

  // The spread of the overhead with the memory as it is now.
  double spread_in_rounds() {
    ExchangeCost exchange;
    next_inputs();
    for (size_t i = 0, n = long_samples() ? kExchanges / 2 : kExchanges; i < n && !result_.failure; ++i) {
      std::vector<int> calls = drawn_calls();
      for (int side : {kBaseline, kControl})
        if (time_side(side, calls, 0xFF).dropped != Dropped::kNo) ++interrupted_;
      if (note_failure(kBaseline) || note_failure(kControl)) break;
      EmptySample empty = empty_sample(calls);
      if (i > 0) exchange.add_empty(empty);  // the first waits for no other process
    }
    return exchange.spread_ns();
  }

  // Allocates memory for as many calls as a sample needs with this spread of the overhead. False if nothing changed.
  bool take_memory(double spread_ns) {
    size_t one = memory_->inputs().size_bytes() + kRunners * memory_->written(0).size_bytes();
    int affordable = static_cast<int>(
        std::max<size_t>(1, (on_gpu() ? kMostRotatingOnGpu : kMostRotatingBytes) / std::max<size_t>(one, 1)));
    int calls = std::clamp(fk::calls_per_sample(call_ns_, spread_ns, least_sample_ns()), 1,
                           std::min(on_gpu() ? kMostOnGpu : kMostCallsPerSample, affordable));
    if (calls <= calls_) return false;
    calls_ = calls;
    int slots = std::min(calls_ + std::max(1, calls_ / 8), std::max(calls_, affordable));
    for (int side = 0; side < kRunners && sides_; ++side) {
      if (!takes_part(side)) continue;
      process(side).unmap(mapped_[static_cast<size_t>(side)].inputs_segment);
      process(side).unmap(mapped_[static_cast<size_t>(side)].written_segment);
    }
    memory_ = std::make_unique<CallMemory>(*root_, inputs_.base(), slots, kRunners, options_.device);
    return true;
  }

  double least_sample_ns() const {
    // The difference between our clock and a GPU's varies by a few microseconds, so samples there are longer.
    if (on_gpu()) return options_.sample_s * 1e9 * 3;
    // How much of its data a call finds in the caches varies from call to call, less for very long ones.
    return std::max(options_.sample_s * 1e9, std::min(kSteadyCalls * call_ns_, kSteadyNs));
  }

  // Filling memory evicts the kernel's code from the caches; waking a process then takes three times as long and varies
  // as much. Waking another process, which does not see the inputs, brings that code back, equally for every sample.
  void refresh_exchange() {
    if (on_gpu()) return;
    if (!pacer_) pacer_ = std::make_unique<RunnerProcess>(runner_options());
    pacer_->run({});
  }

  // A sample without calls, prepared as for `calls`, or with calls of an empty kernel; `alone`: until it returns.
  EmptySample empty_sample(std::span<const int> calls, std::span<const int> of_nothing = {}, bool alone = false) {
    fill(kEmpty, calls, 0xFF, 0);
    refresh_exchange();
    RunTimes t = process(kEmpty).run(of_nothing);
    note_failure(kEmpty);
    return {static_cast<double>(alone ? t.returned_ns : t.ns), t.core_was_taken(1)};
  }

  // Measures the overhead of the runner's loop in a sample of this launch; the rest is measured between the rounds.
  void measure_exchanges() {
    exchange_ = {};
    if (on_gpu()) return;
    next_inputs();
    std::vector<int> calls = drawn_calls(), many = calls;
    while (many.size() < kLoops) many.insert(many.end(), calls.begin(), calls.end());
    for (int i = long_samples() ? 2 : 4; i > 0 && !result_.failure; --i) {
      EmptySample empty = empty_sample(calls);
      exchange_.add_loop(empty, empty_sample(calls, many), many.size() / calls.size());
    }
  }

  // Calls of the next sample: some of the slots in random order.
  std::vector<int> drawn_calls() { return some_of(memory_->slots(), calls_, random_, draws_); }

  void warm_up() {
    double warming_s = 0;
    held_ = rounds_ = 0;
    clock_.restart();
    looks_.clear();
    const double at_most_s = on_gpu() ? 0.1 : kWarmUpS;  // on a GPU a round has more calls
    for (int i = 0; i < options_.warmups && !result_.failure && warming_s < at_most_s; ++i, warming_s += round_s_)
      round(Round::kWarmUp);
    // Calls that wait for the device cannot be queued; then both sides are timed without a hold.
    if (on_gpu() && rounds_ > 1 && 2 * held_ < rounds_) hold_ = false;
  }

  void next_inputs(std::span<const int> calls = {}, bool judged = false) {
    for (int slot = 0; slot < memory_->slots(); ++slot)
      if (on_gpu() || calls.empty() || std::find(calls.begin(), calls.end(), slot) != calls.end()) inputs_.next(slot);
    check_->prepare(calls, judged);
    if (!on_gpu()) return;
    memory_->stage_pieces([&](int slot) -> const CallData& { return inputs_.base(slot); },
                          [&](int slot, size_t tensor) { return inputs_.pieces(slot, tensor); });
  }

  // What a slot's memory is filled and compared with; on a GPU, where data is staged, only its shapes are used.
  const CallData& shapes_of(int slot) { return on_gpu() ? inputs_.base() : inputs_.current(slot); }

  // All three sides on the same new inputs, in random order. Outputs are checked after all have returned.
  void round(Round kind) {
    std::array<int, kRunners> order = shuffled<kRunners>(random_, draws_);
    std::vector<int> calls = drawn_calls();
    Stopwatch watch, of_side;
    std::array<double, kRunners> side_s{};
    next_inputs(calls, kind == Round::kJudged);
    auto pattern = static_cast<uint8_t>(draws_ % 2 == 0 ? 0xFF : 0x7F);
    constexpr size_t kFirst = 3;  // rounds of a launch which surely measure the overhead
    const bool drawn = random_.u32(draws_++) % (long_samples() ? 8 : 2) == 0;
    bool with_empty = !on_gpu() && (drawn || result_.samples.back().size() < kFirst);
    std::array<Sample, kSides> samples;
    std::optional<int64_t> stolen = on_gpu() ? std::nullopt : stolen_ticks();
    const bool watches = !on_gpu() && kind != Round::kJudged;
    double look = watches ? clock_.look() : 0;
    for (int side : order) {
      of_side = Stopwatch();
      if (side != kEmpty)
        samples[static_cast<size_t>(side)] = time_side(side, calls, pattern);
      else if (EmptySample e = with_empty ? empty_sample(calls) : EmptySample(); e.ns > 0 && kind == Round::kTimed)
        exchange_.add_empty(e);
      side_s[static_cast<size_t>(side)] = of_side.elapsed_s();
      if (takes_part(side) && note_failure(side)) return;
    }
    if (watches) look = std::max(look, clock_.look());
    // Steal time is counted in ticks longer than a round, so which of the three was affected is unknown.
    if (stolen && stolen_ticks().value_or(*stolen) > *stolen)
      for (Sample& sample : samples) sample.dropped = Dropped::kStealTime;
    result_.failure = check_->check({*memory_, calls, writers_, pattern, kind == Round::kJudged});
    round_s_ = watch.elapsed_s() - std::max(0.0, side_s[kCandidate] - kMostTimes * side_s[kBaseline]);
    if (kind != Round::kTimed || result_.failure) return;
    const Sample &b = samples[kBaseline], &c = samples[kCandidate], &a = samples[kControl];
    auto pair = [](const Sample& x, const Sample& y) {
      return TimePair{x.ns, y.ns, x.dropped != Dropped::kNo ? x.dropped : y.dropped};
    };
    result_.samples.back().push_back(pair(b, c));
    if (a.dropped == Dropped::kNo) result_.samples.back().back().again_ns = a.ns;
    result_.control.back().push_back(pair(b, a));
    looks_.push_back(look);
    for (size_t side = 0; side < kSides; ++side) outside_[side].push_back(samples[side].outside_ns);
  }

  // Some calls, each in a sample of its own (calls_alone.h).
  void call_alone() {
    if (calls_ == 1 || result_.failure) return;
    const bool more = !on_gpu() && alone_.wants_more(std::span(result_.samples).first(result_.samples.size() - 1));
    alone_.begin_launch();
    Stopwatch watch;
    do {
      next_inputs();
      std::vector<int> calls = drawn_calls();
      calls.resize(std::min(calls.size(), on_gpu() ? kCallsAloneOnGpu : kCallsAlone));
      for (const int& call : calls) call_each_side_alone(call);
    } while (more && !result_.failure && watch.elapsed_s() < kCallsAloneS);
  }

  void call_each_side_alone(const int& call) {
    if (result_.failure) return;
    std::span<const int> one(&call, 1);
    CallsAlone::OfSides times{};
    bool dropped = false;
    for (int side : shuffled<kRunners>(random_, draws_)) {
      if (!takes_part(side)) continue;
      if (side == kEmpty) {
        alone_.add_empty(empty_sample(one, {}, true).ns);
      } else {
        Sample sample = time_alone(side, call);
        times[static_cast<size_t>(side)] = sample.ns;
        dropped = dropped || sample.dropped != Dropped::kNo;
      }
      if (note_failure(side)) return;
    }
    if (!dropped) alone_.add(times);
    result_.failure = check_->check({*memory_, one, writers_, 0x7F, false});
  }

  Sample time_alone(int side, const int& call) {
    std::span<const int> one(&call, 1);
    if (on_gpu()) return time_side(side, one, 0x7F);
    LateWrites late(memory_->written_tensors(call, writer(side)), secret_number());
    Sample sample = time_side(side, one, 0x7F, [&] { late.look(); });
    if (late.found() && !process(side).failure())
      process(side).fail({Verdict::kRewardHack, "Its outputs changed after the call had returned."});
    return sample;
  }

  // Converts the times of samples to times of one call.
  void take_off_exchanges() {
    if (result_.failure) return;
    double n = calls_, exchange = exchange_.typical_ns();
    for (std::vector<TimePair>* pairs : {&result_.samples.back(), &result_.control.back()})
      for (TimePair& pair : *pairs)
        for (double* ns : {&pair.baseline_ns, &pair.candidate_ns, &pair.again_ns})
          if (*ns > 0) *ns = std::max(*ns - exchange, 1.0) / n;
    if (!on_gpu()) {
      exchanges_.push_back(exchange);
      hidden_.push_back(exchange_.could_hide_ns() / n);
    } else if (!outside_[kBaseline].empty()) {
      double b = median(outside_[kBaseline]);
      exchanges_.push_back(b);
      outside_time_.add((median(outside_[kCandidate]) - b) / n, (median(outside_[kControl]) - b) / n);
      for (auto& side : outside_) side.clear();
    }
  }

  // `at_return`: until the calls return, not until all threads are stopped.
  Sample time_side(int side, std::span<const int> calls, uint8_t pattern, std::function<void()> at_return = {}) {
    RunnerProcess& r = process(side);
    RunMode mode{.at_return = at_return, .key = secret_number() >> 1, .hold = hold_, .cold = options_.cold};
    fill(side, calls, pattern, mode.key);
    refresh_exchange();
    RunTimes t = r.run(calls, mode);
    ordered_[static_cast<size_t>(side)].add(calls.size());
    if (t.refused) r.fail(*t.refused);
    if (!r.failure())
      if (std::optional<Failure> changed = r.check_state(false)) r.fail(*changed);
    // Decided after the calls have returned; on a CPU sealed memory and a stopped process give the same guarantee.
    if (side == kCandidate && on_gpu() && !r.failure() && secret_number() % 4 == 0) check_on_gpu(r, calls, t);
    (side == kCandidate ? result_.candidate_peak_kib : result_.baseline_peak_kib) = t.peak_kib;
    int64_t& own_kib = side == kCandidate ? result_.candidate_own_kib : result_.baseline_own_kib;
    own_kib = std::max(own_kib, t.own_kib);
    Dropped dropped = !on_gpu() && t.core_was_taken(std::min(options_.threads, usable_cores()), exchange_.typical_ns())
                          ? Dropped::kContextSwitch
                          : Dropped::kNo;
    if (on_gpu()) {
      double nominal = device_runtime(options_.device).facts().clock_mhz;
      if (t.clock_mhz > 0 && t.clock_mhz < kSlowestClock * nominal) dropped = Dropped::kSlowClock;
      if (side == kCandidate) {
        ++rounds_;
        held_ += t.held ? 1 : 0;
        if (t.clock_mhz > 0) clocks_.push_back(t.clock_mhz);
      }
    }
    if (side == kCandidate) most_threads_ = std::max(most_threads_, t.threads);
    if (!on_gpu()) return {static_cast<double>(at_return ? t.returned_ns : t.ns), 0, dropped};
    return {static_cast<double>(t.device_ns), static_cast<double>(t.ns - t.device_ns), dropped};
  }

  // Inputs are written again for each side, so that all have the same state of the caches.
  void fill(int side, std::span<const int> calls, uint8_t pattern, uint64_t key) {
    memory_->fill(
        calls, writer(side), [&](int slot) -> const CallData& { return shapes_of(slot); }, pattern, key);
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
      evict(params_->of(writer(side)));
    }
  }

  // What sealed memory and a stopped process guarantee on the CPU: unchanged inputs and weights, and no late writes.
  void check_on_gpu(RunnerProcess& process, std::span<const int> calls, const RunTimes& t) {
    std::vector<uint64_t> at_return = memory_->fingerprints(calls, writer(kCandidate));
    std::optional<Failure> found = check_params(params_->of(0));
    for (size_t i = 0; i < calls.size() && !found; ++i) found = memory_->check_inputs(calls[i], shapes_of(calls[i]));
    if (!found && t.at_stop != at_return)
      found = Failure{Verdict::kRewardHack,
                      "Its outputs changed after the work on its stream was done: all work must be on that stream."};
    if (found) process.fail(*found);
  }

  bool note_failure(int side) {
    if (std::optional<Failure> found = sides_->failure(side)) result_.failure = found;
    return result_.failure.has_value();
  }

  void count_dispatches() {
    for (int side : {kBaseline, kCandidate}) {
      if (result_.failure) return;
      const OrderedCalls& ordered = ordered_[static_cast<size_t>(side)];
      const std::vector<RunnerDispatch> since = ordered.since(process(side).dispatches());
      add_dispatches(side == kCandidate ? result_.candidate_dispatches : result_.baseline_dispatches, since);
      if (std::optional<Failure> other = on_gpu() ? std::nullopt : ordered.compare(since, root_->info().name))
        process(side).fail(*other);
      // A model asks before every call; here it was asked before the first one.
      if (std::optional<Failure> refused = process(side).refusal()) process(side).fail(*refused);
      note_failure(side);
    }
  }

  // In a process that was not judged yet. After the timed rounds: mappings that come and go, and calls of other shapes,
  // change the speed of a process by 1 % on some machines. The second launch always, half of the later ones, drawn
  // now: no process knows before whether it will be judged.
  void judge_again() {
    if (!result_.failure && !was_judged_ && (result_.samples.size() <= 2 || secret_number() % 2 == 0))
      result_.failure = judged_.judge->again(sides_->candidate(), sides_->baseline(), secret_number(), kJudgeAgainS);
  }

  void finish() {
    if (result_.failure) return;
    result_.failure = sides_->finish();
    sides_.reset();
  }

  void conclude() {
    if (on_gpu())
      for (std::vector<TimePair>& launch : result_.samples)
        for (TimePair& pair : launch) pair.candidate_ns += outside_time_.charge_ns();
    PairedOptions o;
    o.seed = options_.seed;
    o.could_hide_ns = on_gpu() ? outside_time_.could_hide_ns() : median(hidden_);
    result_.exchange_ns = median(exchanges_);
    result_.calls_per_sample = calls_;
    result_.paired = compare_paired(result_.samples, result_.control, o);
    result_.held = on_gpu() && hold_;
    result_.clock_mhz = clocks_.empty() ? 0 : median(clocks_);
    result_.elements_checked = check_->elements();
    result_.calls_judged = check_->judged();
    compare_with_calls_alone(o);
    if (options_.cold) refuse_private_memory(result_);
    result_.could_hide_ns = o.could_hide_ns;
    result_.paired.invalid += advice_on_threads(result_.paired, most_threads_, options_.threads);
  }

  void compare_with_calls_alone(PairedOptions& o) {
    if (alone_.empty()) return;
    result_.baseline_alone_ns = alone_.alone_ns()[kBaseline];
    result_.candidate_alone_ns = alone_.alone_ns()[kCandidate];
    if (on_gpu())
      alone_.limit_on_gpu(result_.paired);
    else
      alone_.limit(result_.paired, result_.samples, result_.control, o);
  }

  const Fields init_;
  std::string library_;
  TimingOptions options_;
  Stream random_;
  uint64_t draws_ = 0;
  std::unique_ptr<Node> root_;  // for shapes; never called
  FreshInputs inputs_;
  SharedParams weights_;
  JudgedLaunch judged_;
  std::optional<Judge> own_judge_;
  std::optional<RoundCheck> check_;
  std::optional<SideWeights> params_;
  std::unique_ptr<CallMemory> memory_;
  bool sized_ = false;
  int calls_ = 1;              // per sample
  double round_s_ = 0;         // of the last round; of the candidate not more than kMostTimes the baseline's part
  double call_ns_ = 0;         // of one call of the baseline, estimated
  int interrupted_ = 0;        // samples, while their size was chosen
  bool hold_ = true;           // on a GPU: calls are queued before it starts
  int rounds_ = 0, held_ = 0;  // in this launch, of the candidate
  std::vector<double> clocks_;
  ClockWatch clock_;
  std::vector<double> looks_;           // of this launch: the slower of the two clock samples around each timed round
  std::unique_ptr<LaunchSides> sides_;  // of this launch
  bool was_judged_ = false;             // these were
  std::array<Mapped, kRunners> mapped_;
  std::array<OrderedCalls, kSides> ordered_;
  std::unique_ptr<RunnerProcess> pacer_;             // woken before every sample (refresh_exchange); for all launches
  std::array<int, kSides> places_{};                 // for three launches: the order of rotation of the memories
  std::array<int, kSides> writers_{};                // the memory of each side in this launch
  uint64_t more_ = 0;                                // for six launches: random number for the additional pairs
  ExchangeCost exchange_;                            // overhead in this launch
  std::vector<double> exchanges_, hidden_;           // by launch; hidden_ is per call
  std::array<std::vector<double>, kSides> outside_;  // on a GPU, of this launch: our time minus the device's
  OutsideTime outside_time_;                         // the same for all launches
  CallsAlone alone_;
  int most_threads_ = 0;  // of the candidate
  TimingResult result_;
};

}  // namespace

TimingResult time_pairs(const OperatorInfo& op, const Fields& init, const Workload& workload,
                        const std::string& library, const TimingOptions& options,
                        const std::function<void(double done)>& progress, JudgedLaunch judged) {
  return PairTimer(op, init, workload, library, options, std::move(judged)).run(progress);
}

}  // namespace fk
