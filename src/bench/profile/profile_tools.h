// Runs the profiling tools: Nsight Compute, perf, objdump. None is required; a missing tool is named in a sentence.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/profile/ncu_csv.h"

namespace fk {

// $NCU, ncu on the PATH, or where the CUDA toolkit puts it; nothing where there is none.
std::optional<std::string> find_ncu();

struct NcuRun {
  std::vector<ProfiledKernel> kernels;  // the longest first
  std::string report;                   // the raw report, for Nsight Compute itself
  std::string problem;                  // a sentence, where there are no kernels
};
// Runs `command` under Nsight Compute; files are named `base` and an ending.
NcuRun run_ncu(const std::string& ncu, const std::vector<std::string>& command, const std::string& base, int limit_ms);

// What `perf stat` counted for a command, per name of the event; or why it did not.
struct PerfCounts {
  std::vector<std::pair<std::string, double>> counts;
  std::string problem;
  double count(std::string_view event) const;  // zero where it was not counted
};
PerfCounts run_perf(const std::vector<std::string>& command, int limit_ms);
PerfCounts parse_perf_csv(std::string_view text);  // of `perf stat -x,`

// What kinds of instructions a shared object holds.
struct InstructionMix {
  int64_t all = 0;
  int64_t vector = 0;  // floating point on whole vector registers
  int64_t scalar = 0;  // floating point on one element
  int64_t branches = 0;
  int widest_bits = 0;
};
std::optional<InstructionMix> instructions_of(const std::string& library);  // nothing without objdump
InstructionMix count_instructions(std::string_view disassembly);            // of `objdump -d`

// A sentence or two about them.
std::vector<std::string> describe(const InstructionMix& mix);
std::vector<std::string> describe(const PerfCounts& counts);

}  // namespace fk
