// `kernels --repro`: one judged call again, and the command line that asks for it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/kernels/kernel_bench.h"

namespace fk {

// What a run was told that brings a scenario and its seed back.
struct ReproFlags {
  Device device = kCpu;
  std::optional<int> threads;               // where they were not left to the machine
  std::vector<std::string> scenario_files;  // empty: the catalog's
  bool cold = false, self_test = false, allow_libraries = false;
  std::string cxxflags;
};

// The command that judges it again with its seed: up to the call that was wrong, where the judgement found one; else
// with the timing, which draws from the same seed.
std::string repro_command(const KernelResult& result, const ReproFlags& flags);

// "SEED" or "SEED:CALL", as such a command has it. Throws UsageError for anything else.
void set_repro(KernelOptions& options, const std::string& text);

}  // namespace fk
