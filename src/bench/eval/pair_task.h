// PairTask: one (model, ranks) pair of an evaluation as a file, so that a process on any machine can run it; and
// SideTask: what one process of it does, with the candidates or without.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/eval/workloads.h"
#include "core/json.h"

namespace fk {

struct PairTask {
  std::string name;  // "tiny-llama_tp2", also of its folder
  std::string model, load_format, dtype, quantization;
  uint64_t weight_seed = 0;
  std::string category;
  int64_t tp = 1;
  std::string device = "cpu";
  int threads = 1;                  // of all ranks together
  std::vector<int64_t> cores = {};  // to run on; empty: all that the process may use
  uint64_t seed = 0;
  int64_t num_prompts = 0, max_num_seqs = 0;
  std::string scale = "1";
  int64_t rounds = 0;      // processes with candidates, each between two without
  int64_t iterations = 0;  // of a latency workload in each process, at least
  double timeout_s = 0;    // of the whole pair
  // The candidate side. Without a folder it runs the baselines too: a control.
  std::string candidate_folder, cxxflags;
  bool allow_libraries = false;
  std::string folder;  // where everything is kept
};
Json to_json(const PairTask& task);
PairTask pair_task_of(const Json& json);  // throws Error, or Json::exception

enum class SidePhase : uint8_t {
  kReference,  // the baseline's tokens and logits, and its own noise; how often a short workload is repeated
  kTimed,      // times of all workloads
  kScored,     // the baseline's opinion of tokens that were drawn while the clock ran
};

struct SideTask {
  PairTask pair;
  SidePhase phase = SidePhase::kTimed;
  bool candidate = false;
  int64_t round = 0;  // of equal numbers have equal prompts
  // Forced decode on the baseline's tokens, in the same process as the clock: before it, or after it, so that kernels
  // cannot be correct only until they are timed.
  bool check_before = false, check_after = false;
  std::map<std::string, int64_t> repeats = {};  // by workload, as the reference says
  std::string output;
};
Json to_json(const SideTask& task);
SideTask side_task_of(const Json& json);

std::string reference_path(const PairTask& task, const std::string& workload);
std::string scored_path(const PairTask& task);  // the tokens to score

}  // namespace fk
