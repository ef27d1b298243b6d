// Where the pairs of an evaluation run: on this machine, several at once, or as jobs of Slurm.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/eval/pair_task.h"

namespace fk {

class EvalLauncher {
 public:
  virtual ~EvalLauncher() = default;

  // Starts the pair if there is room for it now. It may set the cores of the task, and writes the task's file.
  virtual bool start(PairTask& task) = 0;

  struct Ended {
    std::string name;    // of the task
    std::string lost;    // why there is no item.json; empty where there is one
    bool again = false;  // worth another start: the machine was lost, not the pair
  };
  // Those that ended since the last call.
  virtual std::vector<Ended> ended() = 0;

  virtual double poll_seconds() const = 0;
};

struct LocalPool {
  bool gpus = false;
  std::vector<int64_t> units;  // indices of GPUs, or of cores; each is given to one pair at a time
};
// Throws UsageError where a pair can never start.
std::unique_ptr<EvalLauncher> local_launcher(const LocalPool& pool, const std::vector<PairTask>& tasks);

struct SlurmOptions {
  std::string partition;
  std::vector<std::string> arguments;  // more, for sbatch
  double poll_s = 2;
};
// Throws Error where Slurm is not installed.
std::unique_ptr<EvalLauncher> slurm_launcher(const SlurmOptions& options);

}  // namespace fk
