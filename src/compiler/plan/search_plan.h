// The search for a plan: which calls of a model's graph become generated kernels.
//
// Every region of the graph is written as one kernel. Each different kernel is checked and timed once against the calls
// it stands for, which are baselines or the user's candidates, whatever the registry prefers. It is chosen if it is
// faster with one number of rows and slower with none. Where one with a recurrence or a product among other calls is
// not, those are tried once more without it. On CUDA kernels with products compete with those (search_products.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/plan/find_regions.h"
#include "compiler/plan/region_trial.h"

namespace fk {

struct SearchOptions {
  int threads = 1;
  uint64_t seed = 0;
  int64_t budget = -1;             // kernels that are tried; those that are known cost nothing. -1: all
  bool measure = true;             // false: write and compile kernels, and choose none
  bool products = true;            // on CUDA, of steps that decode: kernels with products, too
  std::string cache_folder = {};   // empty: that of candidates
  std::string calls_version = {};  // of the user's candidates that are loaded
  Device device = kCpu;
  std::vector<std::string> trial_command = {};  // on other devices: as try_kernels() has it
  std::function<void(const std::string&)> progress = nullptr;
};

// One kernel and what was found out about it.
struct KernelChoice {
  std::string key;
  std::string calls;               // "rotary_emb + store_kvcache"
  std::string expression;          // what it computes
  int64_t places = 0;              // where a pass uses it
  std::vector<std::string> paths;  // of the calls at the first of them
  TrialResult trial;
  bool tried = false;  // false: beyond the budget
  bool known = false;  // from the profile store
  bool chosen = false;
  double saved_inside_ns = 0;  // with products: what kernels that were chosen for parts of it save of the calls' time
};

struct PhasePlan {
  GraphPhase phase = GraphPhase::kDecode;
  int64_t calls = 0;          // of the graph
  int64_t calls_planned = 0;  // with the chosen kernels
  std::vector<KernelChoice> kernels;
  std::vector<PlannedRegion> regions;
  std::vector<RuleStatistics> rules;
  std::string source;
  double find_s = 0, compile_s = 0, trial_s = 0;

  // Of what a plan does: equal plans have equal fingerprints.
  std::string fingerprint() const;
};

// Throws Error where there is no compiler.
PhasePlan search_plan(const GraphBody& flat, GraphPhase phase, const SearchOptions& options);

// Numbers of rows that kernels of a phase are timed with.
std::vector<int64_t> timed_rows(GraphPhase phase);

}  // namespace fk
