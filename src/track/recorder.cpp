#include "track/recorder.h"

#include "core/error.h"
#include "track/environment.h"

namespace fk {
namespace {

constexpr int64_t kMostTold = 20'000;

}  // namespace

Recorder::Recorder(RecorderOptions options, Warn warn) : options_(std::move(options)), warn_(std::move(warn)) {
  if (options_.journal_always) journal_.emplace(options_.journal);
  if (!options_.enabled) return;
  if (std::string why = store_unavailable(); !why.empty()) {
    if (!options_.journal.empty()) journal_.emplace(options_.journal);
    warn_(fmt::format("No history is kept here: {}. This run: {}", why, options_.journal));
    return;
  }
  try {
    store_ = open_store(options_.db);
    close_dead_runs(*store_);
  } catch (const std::exception& e) {
    lose_store(e.what());
  }
}

Recorder::~Recorder() {
  if (started_ && !ended_) end("failed", "It ended without a result.");
  if (mirror_) mirror_->finish();
}

void Recorder::start(RunRecord run, bool resumed) {
  if (run.started_us == 0) run.started_us = now_us();
  if (run.id.empty()) run.id = make_run_id(run.started_us);
  run.tags["tier"] = run.tier;
  run_ = std::move(run);
  started_ = true;
  ended_ = false;
  to_journal(run_event(run_));
  if (!store_) return;
  try {
    if (resumed && store_->run(run_.id))
      store_->reopen_run(run_.id);
    else
      store_->begin_run(run_);
    mirror_ = start_mirror(*store_, run_.id, warn_);
  } catch (const std::exception& e) {
    lose_store(e.what());
  }
}

void Recorder::add(const Json& event) {
  to_journal(event);
  if (!store_ || !started_) return;
  try {
    apply_event(*store_, run_.id, event);
    if (mirror_) mirror_->wake();
  } catch (const std::exception& e) {
    lose_store(e.what());
  }
}

void Recorder::end(std::string_view status, std::string_view error) {
  ended_ = true;
  add(end_event(status, error, now_us()));
}

std::optional<double> Recorder::best_speedup(std::string_view op, std::string_view scenario) {
  if (!store_ || !started_) return std::nullopt;
  try {
    return store_->best_speedup(op, scenario, run_.environment.device, run_.environment.device_name());
  } catch (const std::exception& e) {
    lose_store(e.what());
    return std::nullopt;
  }
}

void Recorder::to_journal(const Json& event) {
  if (options_.enabled && !journal_) {
    // The run itself and its latest events: the rest is in the store.
    if (told_.size() == kMostTold) told_.erase(told_.begin() + 1, told_.begin() + kMostTold / 2);
    told_.push_back(event);
  }
  if (!journal_) return;
  try {
    journal_->append(event);
  } catch (const std::exception& e) {
    journal_.reset();
    warn_(fmt::format("The journal cannot be written: {} This run goes on without it.", e.what()));
  }
}

void Recorder::lose_store(const std::string& why) {
  mirror_.reset();
  store_.reset();
  bool late = !journal_ && !options_.journal.empty();
  if (late) journal_.emplace(options_.journal);
  warn_(fmt::format("{} This run goes on into {}; `fastkernels history import` takes it later.", why,
                    options_.journal.empty() ? "nothing" : options_.journal));
  if (!late) return;
  std::vector<Json> told = std::move(told_);
  told_.clear();
  for (const Json& event : told) to_journal(event);
}

size_t close_dead_runs(Store& store) {
  RunQuery running;
  running.status = "running";
  running.limit = -1;
  size_t closed = 0;
  for (const RunRecord& listed : store.runs(running)) {
    std::optional<RunRecord> run = store.run(listed.id);
    if (!run || process_alive(run->environment.details.value("process", Json()))) continue;
    store.end_run(run->id, "interrupted", "Its process ended in the middle.", now_us());
    ++closed;
  }
  return closed;
}

}  // namespace fk
