// `kernels --repro`: repeats one judged call; and the command line for it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/kernels/kernel_bench.h"

namespace fk {

// The options of a run that are needed to repeat a scenario with its seed.
struct ReproFlags {
  Device device = kCpu;
  std::optional<int> threads;               // if given
  std::vector<std::string> scenario_files;  // empty: the catalog's
  bool cold = false, self_test = false, allow_libraries = false;
  std::string cxxflags;
};

// The command that judges it again with its seed: up to the wrong call if the judgement found one; else with the
// timing, which uses the same seed.
std::string repro_command(const KernelResult& result, const ReproFlags& flags);

// "SEED" or "SEED:CALL", as such a command has it. Throws UsageError for anything else.
void set_repro(KernelOptions& options, const std::string& text);

}  // namespace fk
