// scheduler_bench: the time of plan() and drawn() for one step.
//
//   scheduler_bench [sequences] [context]   decoding sequences, 256 of 1024 tokens each unless told otherwise, while as
//                                           many wait
//   scheduler_bench replay LOG              makes the calls of a log again, checks the scheduler after each, and says
//                                           how many there were
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "engine/schedule_log.h"
#include "engine/scheduler.h"

namespace fk {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

void replay(const char* path) {
  std::ifstream log(path);
  if (!log) throw Error("{} cannot be read.", path);
  SchedulerStats last;
  int64_t steps = 0;
  int64_t calls = replay_schedule(log, [&](const Scheduler& scheduler, const StepPlan& plan) {
    if (plan.empty()) return;
    ++steps;
    last = scheduler.stats();
  });
  fmt::print("{} calls, {} steps, {} preemptions; at the last step {} requests ran and {} waited.\n", calls, steps,
             last.preemptions, last.running, last.waiting);
}

void decode(int64_t sequences, int64_t context) {
  constexpr int64_t kSteps = 512, kPage = 16;
  Scheduler scheduler({.max_batched_tokens = sequences * context,  // all prompts in one step
                       .max_sequences = sequences,
                       .max_context = context + kSteps + 64,
                       .page_size = kPage,
                       .blocks = (context + kSteps + 64) / kPage * (sequences + 1)});
  for (int64_t i = 0; i < 2 * sequences; ++i) {
    std::vector<int64_t> prompt(static_cast<size_t>(context));
    for (int64_t t = 0; t < context; ++t) prompt[static_cast<size_t>(t)] = i * context + t;
    scheduler.add(static_cast<RequestId>(i + 1), std::move(prompt), kSteps + 64);
  }
  std::vector<double> plans, draws;
  std::vector<int64_t> tokens;
  for (int64_t step = 0; std::ssize(plans) < kSteps; ++step) {
    Clock::time_point start = Clock::now();
    StepPlan plan = scheduler.plan();
    Clock::time_point planned = Clock::now();
    tokens.clear();
    for (const PlannedRow& row : plan.rows)
      if (row.draws) tokens.push_back(step);
    Clock::time_point sampled = Clock::now();
    scheduler.drawn(tokens);
    Clock::time_point end = Clock::now();
    if (plan.tokens() != sequences) continue;  // prompts
    plans.push_back(microseconds(planned - start));
    draws.push_back(microseconds(end - sampled));
  }
  for (auto* times : {&plans, &draws}) {
    std::sort(times->begin(), times->end());
    fmt::print("{:>5}: median {:.1f} us, 99 % {:.1f} us\n", times == &plans ? "plan" : "drawn",
               times->at(times->size() / 2), times->at(times->size() * 99 / 100));
  }
}

int64_t argument(int argc, char** argv, int i, int64_t otherwise) {
  return argc > i ? std::max<int64_t>(1, std::strtoll(argv[i], nullptr, 10)) : otherwise;
}

}  // namespace
}  // namespace fk

int main(int argc, char** argv) {
  try {
    if (argc == 3 && std::string_view(argv[1]) == "replay")
      fk::replay(argv[2]);
    else
      fk::decode(fk::argument(argc, argv, 1, 256), fk::argument(argc, argv, 2, 1024));
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
