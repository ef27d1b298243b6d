// BatchingEngine: runs the requests of many clients together, step by step: the scheduler plans a step, the executor
// runs it, and every request gets its token.
//
// submit(), cancel() and stats() may be called from any thread. Steps run on one thread: either the caller's, with
// step(), or the engine's own after start(). With several ranks every rank has an engine, gets the same requests in the
// same order and calls step() as often: the scheduler then plans the same steps on all of them. Or, after
// share_requests(), the first rank alone gets requests and tells the others, which follow().
//
// With run-ahead, step n + 1 is planned and started on the device while step n runs, and the output of step n is sent
// while step n + 1 runs. Steps whose logits or tokens the host has to look at first (log-probabilities, penalties, the
// first token of a request, whose logits are checked) are waited for.
#pragma once

#include <condition_variable>
#include <deque>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/batching_options.h"
#include "engine/draft_model.h"
#include "engine/engine.h"
#include "engine/live_request.h"
#include "engine/rank_feed.h"
#include "engine/scheduler.h"
#include "engine/step_executor.h"
#include "models/tokenizer.h"

namespace fk {

class BatchingEngine final : public Engine {
 public:
  // Model and pool must outlive it. Without a tokenizer the text of token 7 is "<7>". draft: the model that guesses,
  // where the options have a draft model; it must outlive the engine, too.
  BatchingEngine(const Model& model, ThreadPool& pool, std::optional<Tokenizer> tokenizer,
                 const BatchingOptions& options, const Model* draft = nullptr);
  ~BatchingEngine() override;  // as stop()

  RequestId submit(Request request, OutputSink sink) override;
  void cancel(RequestId id) override;
  EngineStats stats() const override;
  const EngineLimits& limits() const override { return limits_; }

  // Takes in what was submitted, starts a step, and ends one. False if there is nothing to do.
  bool step();
  void run_until_idle() {
    while (step()) continue;
  }

  // Runs steps on a thread of its own, which sleeps while there is nothing to do. Ranks that share requests cannot go
  // on after a step that failed: all requests then end with the sentence, which is kept as failure(), and on_failure is
  // called.
  void start(std::function<void()> on_failure = {});
  // Ends that thread after its step. Requests that have not ended are cancelled, and other ranks stop following.
  void stop();
  // Why the thread ended by itself; empty: it did not. After stop().
  const std::string& failure() const { return failure_; }

  // Before the first step, on all ranks; `ranks` are hosts, and outlive the engine.
  void share_requests(Communicator& ranks);
  // On ranks other than the first: runs the same steps until that one stops. Throws Error if a rank is lost.
  void follow();

  StepExecutor& executor() { return executor_; }
  // Observes every operator call from now on, those of a draft model too; nullptr: no observer.
  void observe(CallObserver* observer);

 private:
  struct Arrival {
    std::unique_ptr<LiveRequest> request;  // nullptr: the id ends
    RequestId id = 0;
    FinishReason end = FinishReason::kCancelled;
  };

  // A row of a step that draws: its logits and tokens begin at `first`, one more than its guesses.
  struct Drawing {
    RequestId request = 0;
    LiveRequest* live = nullptr;  // none: it has ended
    size_t first = 0;
    std::span<const int64_t> drafts = {};
    size_t kept = 0;  // of its drawn tokens, once they are known
    std::string error =
        {};  // of its first logits, where the step needs the host, and of the token behind the kept ones
  };

  // A row of a step whose request wants to know how likely the tokens of its prompt are.
  struct PromptRow {
    RequestId request = 0;
    int64_t first = 0, count = 0;  // the logits of these positions of the prompt
    std::string error = {};        // of these logits
  };

  // A step that was started.
  struct Flight {
    StepPlan plan;
    std::vector<Drawing> drawing;
    bool needs_host = false;  // it ends before the next one is planned
    // Of the logits, where the step needs the host: those that the request wants to see.
    std::vector<std::vector<float>> kept_logits;
    std::vector<PromptRow> prompts;
  };

  void check(const Request& request) const;
  void loop();
  std::vector<Arrival> new_arrivals();
  void add_late_requests(std::vector<Arrival>& arrivals) const;
  void tell_ranks(const std::vector<Arrival>& arrivals);
  std::vector<Arrival> ask_first_rank();
  void apply(std::vector<Arrival> arrivals);
  // Plans a step and starts it. False if there was none, or it failed and its requests have ended with an error.
  bool start_step();
  // Where a draft model guesses: the guesses of a plan.
  void guess(StepPlan& plan);
  void gather(Flight& flight);
  // Before penalties change them: the first ones of a request are checked, and those it wants to see are kept.
  void look_at_logits(const View& logits, Flight& flight);
  void look_at_prompts(const View& logits, Flight& flight);
  // Waits for the oldest step and sends its output.
  void end_step();
  // Keeps what was drawn, up to the first token without usable logits; the request then ends.
  void check_draw(Drawing& drawing);
  void fail(const Flight& flight, const std::string& sentence);
  void deliver(const Flight& flight, const Drawing& drawing);
  void deliver_all(const Flight& flight);
  LiveRequest& live_request(RequestId id, size_t row);
  // Of the live ones. Steps in flight have no pointer to it any more.
  std::unique_ptr<LiveRequest> take_out(RequestId id);
  void end(RequestId id, FinishReason reason, const std::string& error = {});
  void end_all(FinishReason reason, const std::string& error = {});
  void give_up(const std::string& sentence);
  void update_stats();

  const Model& model_;
  ThreadPool& pool_;
  const std::optional<Tokenizer> tokenizer_;
  const EngineSizes sizes_;
  EngineLimits limits_;
  StepExecutor executor_;
  std::optional<DraftModel> draft_;
  std::ofstream schedule_log_;  // of all calls of the scheduler, where FASTKERNELS_SCHEDULE_LOG names a file
  Scheduler scheduler_;
  std::unordered_map<RequestId, std::unique_ptr<LiveRequest>> live_;
  int64_t with_deadline_ = 0;  // of the live ones
  // The live ones by row of the last step, where most of them are found in the next one too; ended ones are nullptr.
  std::vector<std::pair<RequestId, LiveRequest*>> rows_live_;

  const bool run_ahead_;
  std::deque<Flight> flights_;  // at most two
  Flight* ending_ = nullptr;    // the one whose output is sent
  double device_seconds_ = 0;   // of the present step(): in calls of the executor

  // Of the present step, kept for their memory.
  std::vector<std::span<const int64_t>> tokens_;
  std::vector<SampledRow> rows_;
  std::vector<int64_t> drawn_, guesses_;

  EngineStats counted_;  // by the thread that runs the steps
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Arrival> arrivals_;  // from here on guarded by the mutex
  int64_t new_requests_ = 0;       // of the arrivals
  EngineStats stats_;
  RequestId last_id_ = 0;
  bool stopping_ = false;
  std::thread thread_;

  std::optional<RankFeed> feed_;
  bool over_ = false;  // no rank follows, or this one has stopped to
  std::string failure_;
  std::function<void()> on_failure_;
};

}  // namespace fk
