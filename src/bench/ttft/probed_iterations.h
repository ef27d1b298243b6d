// ProbedIterations: repeats the timed work of a model and measures the limits of this machine around every iteration.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bench/ttft/ttft.h"
#include "measure/roofline.h"

namespace fk {

class ProbedIterations {
 public:
  ProbedIterations(const Model& model, ThreadPool& pool, const TtftOptions& options)
      : model_(model), pool_(pool), options_(options) {}

  // Calls work(i) for the warm-ups, which have negative numbers, and for the iterations; then sets in `result` what is
  // known after them: the peak memory, the dispatches and the machine's speeds.
  void run(const std::function<void(int64_t i)>& work, TtftResult& result);

  // Adds the work of these passes, and their floors at the speeds of each iteration. After run().
  void set_floors(TimedWork& work, const std::vector<Workload>& passes) const;

  // `sequences` of so many new tokens each.
  Workload one_pass(int64_t sequences, int64_t new_tokens, int64_t context) const;

 private:
  const Model& model_;
  ThreadPool& pool_;
  const TtftOptions& options_;
  std::vector<Speeds> speeds_;  // by iteration; empty without floors
};

}  // namespace fk
