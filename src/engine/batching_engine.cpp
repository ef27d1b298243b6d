#include "engine/batching_engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.h"
#include "core/device_thread.h"
#include "core/environment_variable.h"
#include "core/error.h"
#include "engine/finite_logits.h"
#include "engine/log_probabilities.h"
#include "measure/timer.h"
#include "models/finite.h"
#include "ops/batch_invariant.h"
#include "ops/l4/causal_lm.h"

namespace fk {
namespace {

// The sentence of the Error that `body` throws; empty: none.
template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}

// Those of the target that a head guesses from. The model's own states come before those of its layers.
std::span<const View> kept_hidden_states(const Model& model, const StepExecutor& executor) {
  const std::vector<StateSpec>& own = model.root->own_states();
  FK_CHECK(!own.empty() && own[0].name.starts_with(kAuxHiddenStates), "the target keeps no hidden states for the head");
  return executor.states().first(own.size());
}

}  // namespace

BatchingEngine::BatchingEngine(const Model& model, ThreadPool& pool, std::optional<Tokenizer> tokenizer,
                               const BatchingOptions& options, const Model* draft)
    : model_(model),
      pool_(pool),
      tokenizer_(std::move(tokenizer)),
      sizes_(engine_sizes(model, options, draft)),
      limits_({.max_model_len = sizes_.limits.max_context,
               .max_num_seqs = sizes_.limits.max_sequences,
               .max_cached_tokens = sizes_.limits.blocks * sizes_.limits.page_size,
               .max_waiting = options.max_waiting,
               .vocab_size = model.config.facts.vocab_size}),
      executor_(model, pool, sizes_.limits),
      scheduler_(sizes_.scheduler),
      run_ahead_((options.run_ahead || model.device != kCpu) && !options.no_run_ahead) {
  if (draft != nullptr)
    draft_.emplace(*draft, pool, sizes_.limits,
                   options.speculative.has_head() ? kept_hidden_states(model, executor_) : std::span<const View>());
  if (options.enforce_eager) executor_.record_nothing();
  if (options.enforce_eager && draft_) draft_->executor().record_nothing();
  set_batch_invariant(options.batch_invariant);
  // All ranks plan the same steps.
  std::string log = model.communicator != nullptr && model.communicator->rank() > 0
                        ? ""
                        : environment_variable("FASTKERNELS_SCHEDULE_LOG");
  if (!log.empty()) {
    schedule_log_.open(log);
    if (!schedule_log_) throw Error("{}, which FASTKERNELS_SCHEDULE_LOG names, cannot be written.", log);
    scheduler_.log_to(schedule_log_);
  }
  update_stats();
}

BatchingEngine::~BatchingEngine() { stop(); }

void BatchingEngine::check(const Request& request) const {
  check_sampling_params(request.sampling);
  auto in_vocabulary = [&](int64_t token, std::string_view what) {
    if (token < 0 || token >= limits_.vocab_size)
      throw UsageError("{} {} is outside the vocabulary of {}, which has {} tokens.", what, token, model_.name,
                       limits_.vocab_size);
  };
  for (int64_t token : request.prompt) in_vocabulary(token, "Token id");
  for (auto [token, bias] : request.sampling.logit_bias) in_vocabulary(token, "The token of a logit bias");
  if (request.min_tokens < 0 || request.min_tokens > request.max_tokens)
    throw UsageError("min_tokens must lie between 0 and max_tokens, which is {}, not be {}.", request.max_tokens,
                     request.min_tokens);
  if (request.logprobs && *request.logprobs < 0)
    throw UsageError("logprobs must be 0 or more, not {}.", *request.logprobs);
  if (request.prompt_logprobs && *request.prompt_logprobs < 0)
    throw UsageError("prompt_logprobs must be 0 or more, not {}.", *request.prompt_logprobs);
  std::string reason = scheduler_.reason_it_never_fits(std::ssize(request.prompt), request.max_tokens);
  if (!reason.empty()) throw UsageError("{}", reason);
}

RequestId BatchingEngine::submit(Request request, OutputSink sink) {
  check(request);
  auto live = std::make_unique<LiveRequest>(0, std::move(request), std::move(sink), tokenizer_ ? &*tokenizer_ : nullptr,
                                            limits_.vocab_size);
  std::lock_guard lock(mutex_);
  if (stopping_) throw Error("The engine has been stopped.");
  // Those that can start at once do not wait.
  const int64_t idle_seats = std::max<int64_t>(limits_.max_num_seqs - stats_.running, 0);
  const int64_t waiting = stats_.waiting + new_requests_ - idle_seats;
  if (waiting >= limits_.max_waiting)
    throw QueueFull("{} requests wait already, and no more than {} may; try again later.", waiting,
                    limits_.max_waiting);
  RequestId id = ++last_id_;
  live->set_id(id);
  arrivals_.push_back({std::move(live), id, FinishReason::kNone});
  ++new_requests_;
  arrived_.notify_one();
  return id;
}

void BatchingEngine::cancel(RequestId id) {
  std::lock_guard lock(mutex_);
  arrivals_.push_back({nullptr, id, FinishReason::kCancelled});
  arrived_.notify_one();
}

EngineStats BatchingEngine::stats() const {
  std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.waiting += new_requests_;
  return stats;
}

std::vector<BatchingEngine::Arrival> BatchingEngine::new_arrivals() {
  std::vector<Arrival> arrivals;
  {
    std::lock_guard lock(mutex_);
    arrivals.swap(arrivals_);
    stats_.waiting += std::exchange(new_requests_, 0);
  }
  add_late_requests(arrivals);
  return arrivals;
}

void BatchingEngine::apply(std::vector<Arrival> arrivals) {
  for (Arrival& arrival : arrivals) {
    if (arrival.request == nullptr) {
      end(arrival.id, arrival.end);
      continue;
    }
    const Request& request = arrival.request->request();
    scheduler_.add(arrival.id, request.prompt, request.max_tokens, arrival.request->speculates(),
                   request.prompt_logprobs.has_value());
    with_deadline_ += request.deadline ? 1 : 0;
    live_.emplace(arrival.id, std::move(arrival.request));
  }
}

void BatchingEngine::add_late_requests(std::vector<Arrival>& arrivals) const {
  auto has_deadline = [](const Arrival& a) { return a.request != nullptr && a.request->request().deadline; };
  if (with_deadline_ == 0 && std::none_of(arrivals.begin(), arrivals.end(), has_deadline)) return;
  const auto now = std::chrono::steady_clock::now();
  std::vector<RequestId> late;
  auto look_at = [&](const LiveRequest& live) {
    if (live.request().deadline && *live.request().deadline <= now) late.push_back(live.id());
  };
  for (const auto& [id, live] : live_) look_at(*live);
  for (const Arrival& arrival : arrivals)
    if (arrival.request != nullptr) look_at(*arrival.request);
  std::sort(late.begin(), late.end());
  for (RequestId id : late) arrivals.push_back({nullptr, id, FinishReason::kTimeout});
}

std::unique_ptr<LiveRequest> BatchingEngine::take_out(RequestId id) {
  auto found = live_.find(id);
  if (found == live_.end()) return nullptr;
  std::unique_ptr<LiveRequest> live = std::move(found->second);
  live_.erase(found);
  if (draft_) draft_->forget(id);
  auto forget = [&](Flight& flight) {
    for (Drawing& drawing : flight.drawing)
      if (drawing.live == live.get()) drawing.live = nullptr;
  };
  for (Flight& flight : flights_) forget(flight);
  if (ending_ != nullptr) forget(*ending_);
  for (auto& [row_id, row_live] : rows_live_)
    if (row_live == live.get()) row_live = nullptr;
  return live;
}

void BatchingEngine::end(RequestId id, FinishReason reason, const std::string& error) {
  std::unique_ptr<LiveRequest> live = take_out(id);
  if (!live) return;
  if (scheduler_.has(id)) scheduler_.finish(id);
  with_deadline_ -= live->request().deadline ? 1 : 0;
  ++counted_.finished;
  live->send(live->finish(reason, error));
}

bool BatchingEngine::step() {
  Stopwatch watch;
  device_seconds_ = 0;
  const int64_t steps = counted_.steps;
  const bool follows = feed_ && !feed_->leads();
  std::vector<Arrival> arrivals = follows ? ask_first_rank() : new_arrivals();
  if (follows && over_) return false;
  if (feed_ && !follows) tell_ranks(arrivals);
  apply(std::move(arrivals));
  const bool started = start_step();
  const size_t most = run_ahead_ ? 1 : 0;
  while (!flights_.empty() && (!started || flights_.size() > most || flights_.back().needs_host)) end_step();
  if (started || counted_.steps > steps) {
    counted_.step_seconds += watch.elapsed_s();
    counted_.host_seconds += watch.elapsed_s() - device_seconds_;
  }
  update_stats();
  return started || !scheduler_.idle();
}

bool BatchingEngine::start_step() {
  StepPlan plan = scheduler_.plan();
  if (plan.empty()) return false;
  Flight flight;
  flight.plan = std::move(plan);
  Stopwatch computing;
  try {
    if (draft_) guess(flight.plan);
    device_seconds_ += computing.elapsed_s();
    gather(flight);
    computing = {};
    const View logits = executor_.forward(flight.plan, tokens_);
    if (flight.needs_host) look_at_logits(logits, flight);
    if (!flight.prompts.empty()) look_at_prompts(executor_.prompt_logits(), flight);
    executor_.draw(rows_);
  } catch (const std::exception& e) {
    if (feed_) throw;  // another rank may be in the middle of this step
    const std::string sentence = e.what();
    while (!flights_.empty()) end_step();  // the scheduler takes the outcome of steps in their order
    fail(flight, sentence);
    return false;
  }
  device_seconds_ += computing.elapsed_s();
  flights_.push_back(std::move(flight));
  return true;
}

void BatchingEngine::guess(StepPlan& plan) {
  std::vector<LiveRequest*> live;
  live.reserve(plan.rows.size());
  for (const PlannedRow& row : plan.rows) live.push_back(live_.at(row.request).get());
  draft_->guess(plan, live);
  if (plan.guesses() == 0) return;
  guesses_.clear();
  for (const PlannedRow& row : plan.rows) guesses_.insert(guesses_.end(), row.drafts.begin(), row.drafts.end());
  scheduler_.guessed(guesses_);
}

void BatchingEngine::observe(CallObserver* observer) {
  executor_.observe(observer);
  if (draft_) draft_->executor().observe(observer);
}

void BatchingEngine::gather(Flight& flight) {
  tokens_.clear();
  rows_.clear();
  flight.drawing.reserve(flight.plan.rows.size());
  rows_live_.resize(flight.plan.rows.size());
  for (size_t r = 0; r < flight.plan.rows.size(); ++r) {
    const PlannedRow& row = flight.plan.rows[r];
    if (r + 2 < rows_live_.size() && rows_live_[r + 2].second != nullptr) rows_live_[r + 2].second->prefetch();
    LiveRequest& live = live_request(row.request, r);
    tokens_.push_back(live.tokens_with(row.drafts));
    if (row.prompt_logits > 0) {
      flight.prompts.push_back({row.request, row.first, row.prompt_logits});
      flight.needs_host = true;
    }
    if (!row.draws) continue;
    flight.needs_host = flight.needs_host || live.needs_host();
    flight.drawing.push_back({row.request, &live, rows_.size(), row.drafts});
    for (int64_t i = 0; i < row.draws_rows(); ++i) rows_.push_back(live.sampled_row(i));
    ++live.pending;
  }
}

LiveRequest& BatchingEngine::live_request(RequestId id, size_t row) {
  auto& [known, live] = rows_live_[row];
  if (known != id || live == nullptr) {
    known = id;
    live = live_.at(id).get();
  }
  return *live;
}

void BatchingEngine::look_at_logits(const View& logits, Flight& flight) {
  flight.kept_logits.resize(rows_.size());
  // On a device one look at all rows takes less time than one at each; on the CPU it would read the rows of everyone.
  const bool all_fine = model_.device != kCpu && all_finite(logits);
  for (Drawing& drawing : flight.drawing) {
    const LiveRequest& live = *drawing.live;
    const View own = logits.narrow(0, static_cast<int64_t>(drawing.first), std::ssize(drawing.drafts) + 1);
    if (live.drawn() == 0 && !all_fine)
      drawing.error = error_of([&] { require_finite_logits(model_, own.narrow(0, 0, 1)); });
    if (!live.request().logprobs) continue;
    for (int64_t i = 0; i < own.size(0); ++i) {
      std::vector<float>& kept = flight.kept_logits[drawing.first + static_cast<size_t>(i)];
      kept.resize(static_cast<size_t>(limits_.vocab_size));
      copy_between(own.narrow(0, i, 1), View(kept.data(), {1, limits_.vocab_size}, DType::kF32));
    }
  }
}

void BatchingEngine::look_at_prompts(const View& logits, Flight& flight) {
  const int64_t vocabulary = limits_.vocab_size;
  Tensor copy;
  View on_host = logits;
  if (model_.device != kCpu) {
    copy = Tensor({logits.size(0), vocabulary}, DType::kF32);
    copy_between(logits, copy);
    on_host = copy.view();
  }
  int64_t row = 0;
  for (PromptRow& prompt : flight.prompts) {
    LiveRequest& live = *live_.at(prompt.request);
    const View own = on_host.narrow(0, std::exchange(row, row + prompt.count), prompt.count);
    // After a preemption the first ones are known.
    const int64_t known = live.known_prompt_logprobs() - prompt.first;
    FK_CHECK(known >= 0, "a part of a prompt was not computed");
    if (known >= prompt.count) continue;
    const Request& request = live.request();
    std::vector<DrawnLogprobs> found(static_cast<size_t>(prompt.count - known));
    pool_.parallel_for(std::ssize(found), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const std::span<const float> values(own.ptr<float>() + (known + i) * vocabulary,
                                            static_cast<size_t>(vocabulary));
        const auto next = static_cast<size_t>(prompt.first + known + i + 1);
        found[static_cast<size_t>(i)] =
            prompt_log_probabilities(values, request.prompt[next], *request.prompt_logprobs);
      }
    });
    if (std::any_of(found.begin(), found.end(),
                    [](const DrawnLogprobs& one) { return !std::isfinite(one.drawn.logprob); }))
      prompt.error = error_of([&] { require_finite_logits(model_, own); });
    live.add_prompt_logprobs(found);
  }
}

void BatchingEngine::end_step() {
  Flight flight = std::move(flights_.front());
  flights_.pop_front();
  ending_ = &flight;
  ++counted_.steps;
  Stopwatch computing;
  try {
    const std::span<const int64_t> drawn = executor_.drawn();
    drawn_.assign(drawn.begin(), drawn.end());
  } catch (const std::exception& e) {
    ending_ = nullptr;
    if (feed_) throw;
    fail(flight, e.what());
    return;
  }
  device_seconds_ += computing.elapsed_s();
  for (const PromptRow& prompt : flight.prompts)
    if (!prompt.error.empty()) end(prompt.request, FinishReason::kError, prompt.error);
  for (Drawing& drawing : flight.drawing) {
    if (drawing.live != nullptr) --drawing.live->pending;
    check_draw(drawing);
    if (drawing.error.empty()) continue;
    // The pages of a request without usable logits must not be shared: it ends before the scheduler gets the tokens.
    deliver(flight, drawing);
    end(drawing.request, FinishReason::kError, drawing.error);
  }
  scheduler_.drawn(drawn_);
  deliver_all(flight);
  ending_ = nullptr;
}

void BatchingEngine::deliver_all(const Flight& flight) {
  // The step has driven them out of the caches.
  constexpr size_t kAhead = 2;
  for (size_t i = 0; i < flight.drawing.size(); ++i) {
    if (i + kAhead < flight.drawing.size() && flight.drawing[i + kAhead].live != nullptr)
      flight.drawing[i + kAhead].live->prefetch();
    if (flight.drawing[i].error.empty()) deliver(flight, flight.drawing[i]);
  }
}

void BatchingEngine::check_draw(Drawing& drawing) {
  if (!drawing.error.empty()) return;
  const auto own = std::span<const int64_t>(drawn_).subspan(drawing.first, drawing.drafts.size() + 1);
  const size_t kept = tokens_kept(drawing.drafts, own);
  while (drawing.kept < kept && drawing.error.empty()) {
    const size_t row = drawing.first + drawing.kept;
    // A later step has overwritten the logits of this one.
    if (flights_.empty())
      drawing.error =
          error_of([&] { require_finite_draw(model_, executor_.logits(), static_cast<int64_t>(row), drawn_[row]); });
    drawing.kept += drawing.error.empty() ? 1 : 0;
  }
}

void BatchingEngine::fail(const Flight& flight, const std::string& sentence) {
  for (const PlannedRow& row : flight.plan.rows) end(row.request, FinishReason::kError, sentence);
  drawn_.assign(static_cast<size_t>(flight.plan.drawn_tokens()), 0);
  scheduler_.drawn(drawn_);
}

void BatchingEngine::deliver(const Flight& flight, const Drawing& drawing) {
  const RequestId id = drawing.request;
  if (drawing.live == nullptr || drawing.kept == 0) return;  // it ended while the step ran
  LiveRequest& live = *drawing.live;
  if (live.drawn() == 0) live.cached_tokens = scheduler_.cached_tokens(id);
  RequestOutput output;
  if (live.request().max_tokens == 0) output = live.finish(FinishReason::kLength, "");
  for (size_t i = drawing.first; i < drawing.first + drawing.kept && output.finish == FinishReason::kNone; ++i) {
    ++counted_.generated_tokens;
    static const std::vector<float> kNone;
    RequestOutput one = live.add(drawn_[i], flight.kept_logits.empty() ? kNone : flight.kept_logits[i]);
    if (i == drawing.first)
      output = std::move(one);
    else
      output.append(std::move(one));
  }
  const bool ends = output.finish != FinishReason::kNone;
  const bool taken = live.send(std::move(output));
  if (!ends && taken) return;
  if (!ends && feed_) return cancel(id);  // the other ranks hear of it before the next step
  scheduler_.finish(id);
  with_deadline_ -= live.request().deadline ? 1 : 0;
  ++counted_.finished;
  take_out(id);
}

void BatchingEngine::update_stats() {
  const SchedulerStats now = scheduler_.stats();
  counted_.running = now.running;
  counted_.waiting = now.waiting;
  counted_.blocks_used = now.blocks_used;
  counted_.blocks_total = now.blocks_total;
  counted_.prompt_tokens = now.prompt_tokens;
  counted_.cached_prompt_tokens = now.cached_prompt_tokens;
  counted_.preemptions = now.preemptions;
  counted_.drafts = now.drafts;
  counted_.draft_tokens = now.draft_tokens;
  counted_.accepted_tokens = now.accepted_tokens;
  counted_.compiled_steps = executor_.passes_instead();
  std::lock_guard lock(mutex_);
  stats_ = counted_;
}

void BatchingEngine::start(std::function<void()> on_failure) {
  FK_CHECK(!thread_.joinable(), "the engine runs already");
  on_failure_ = std::move(on_failure);
  thread_ = std::thread([this] { loop(); });
}

void BatchingEngine::loop() {
  use_device_on_this_thread(model_.device);
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      auto has_work = [&] { return stopping_ || !arrivals_.empty() || !scheduler_.idle() || !flights_.empty(); };
      // Ranks meet now and then though there is nothing to do, so that a lost one is noticed.
      if (feed_)
        arrived_.wait_for(lock, std::chrono::milliseconds(500), has_work);
      else
        arrived_.wait(lock, has_work);
      if (stopping_) return;
    }
    try {
      step();
    } catch (const std::exception& e) {
      if (!feed_) throw;
      return give_up(e.what());
    }
  }
}

void BatchingEngine::give_up(const std::string& sentence) {
  failure_ = sentence;
  over_ = true;
  flights_.clear();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  apply(new_arrivals());
  end_all(FinishReason::kError, sentence);
  update_stats();
  if (on_failure_) on_failure_();
}

void BatchingEngine::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    arrived_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  while (!flights_.empty()) end_step();
  apply(new_arrivals());
  end_all(FinishReason::kCancelled);
  update_stats();
  if (!feed_ || !feed_->leads() || std::exchange(over_, true)) return;
  try {
    feed_->tell({.events = {}, .over = true});
  } catch (const Error& e) {
    failure_ = e.what();
  }
}

void BatchingEngine::share_requests(Communicator& ranks) { feed_.emplace(ranks); }

void BatchingEngine::follow() {
  FK_CHECK(feed_ && !feed_->leads());
  while (!over_) step();
}

void BatchingEngine::tell_ranks(const std::vector<Arrival>& arrivals) {
  RankNews news;
  for (const Arrival& arrival : arrivals) {
    if (arrival.request != nullptr)
      news.events.push_back({arrival.id, FinishReason::kNone, arrival.request->request()});
    else
      news.events.push_back({arrival.id, arrival.end, {}});
  }
  feed_->tell(news);
}

std::vector<BatchingEngine::Arrival> BatchingEngine::ask_first_rank() {
  RankNews news = feed_->ask();
  over_ = news.over;
  std::vector<Arrival> arrivals;
  for (RankEvent& event : news.events) {
    std::unique_ptr<LiveRequest> live;
    if (event.end == FinishReason::kNone)
      live = std::make_unique<LiveRequest>(event.id, std::move(event.request), OutputSink(),
                                           tokenizer_ ? &*tokenizer_ : nullptr, limits_.vocab_size);
    arrivals.push_back({std::move(live), event.id, event.end});
  }
  return arrivals;
}

void BatchingEngine::end_all(FinishReason reason, const std::string& error) {
  std::vector<RequestId> ids;
  for (const auto& [id, live] : live_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (RequestId id : ids) end(id, reason, error);
}

}  // namespace fk
