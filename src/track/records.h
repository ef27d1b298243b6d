// The records of a run, as read from and written to a store.
//
// Times are microseconds since 1970 in UTC. A number that is unknown is absent, never zero.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"

namespace fk {

struct MetricPoint {
  std::string key;
  double value = 0;
  int64_t step = 0;
  int64_t time_us = 0;
};

// The environment of a run. `details` has everything, as JSON; the fields are those that users filter by.
struct Environment {
  std::string git_commit, git_branch;
  bool git_dirty = false;
  std::string host;
  std::string device;  // "cpu", "cuda:0"
  std::string cpu_name, gpu_name, gpu_driver, cuda_version;
  int64_t gpu_vram_mb = 0;  // 0: no GPU
  Json details = Json::object();

  const std::string& device_name() const { return device == "cpu" || gpu_name.empty() ? cpu_name : gpu_name; }
};

struct RunRecord {
  std::string id;  // "20261115-073228-953672-1f0c9a7e": UTC with microseconds, and a random tail
  std::string name;
  std::string experiment = "fastkernels";
  std::string tier;                // "kernel", "ttft", "e2e", "eval", "search", "agent"
  std::string mode;                // of the tier: "self-test", "single", "ur-test"; may be empty
  std::string status = "running";  // then "finished", "failed" or "interrupted"
  std::string error;               // the sentence of a run that failed
  int64_t started_us = 0;
  std::optional<int64_t> ended_us;
  Environment environment;  // without `details` in lists
  std::map<std::string, std::string> params, tags;
  std::map<std::string, double> metrics;  // the newest value of each
};

// One operator of one run: the summary of its scenarios.
struct OperatorRecord {
  std::string run_id, run_name, run_status;
  int64_t started_us = 0;
  std::string git_commit, device, device_name;
  std::string filter;  // of the run: which scenarios were selected; may be empty
  std::string op;
  int level = 0;
  std::string candidate;                        // identity of what was measured; "baseline" in a self-test
  std::string source_sha256;                    // of the candidate's source among the artifacts; may be empty
  int64_t passed = 0, failed = 0, skipped = 0;  // scenarios; skipped ones earn nothing and are no error
  std::optional<double> speedup, low, high;     // geometric mean over those that passed, and its 99 % interval
  std::optional<double> worst;
  std::string worst_scenario;
  std::optional<double> err_ratio;  // the worst of its scenarios
  std::string confirmed;  // "yes": all scenarios that beat the best known result were confirmed; "no": not all
  // Means over different scenarios cannot be compared. These are short hashes of the scenarios with their dtypes, set
  // by the store from the results: those judged, and those whose times are in `speedup`.
  std::string scenario_set, timed_set;
  int64_t timed = 0;  // number of scenarios in the mean `speedup`; a scenario that passed may have no valid time

  bool correct() const { return failed == 0 && passed > 0; }
  bool self_test() const { return candidate == "baseline"; }

  // "FAILED"; "NO CREDIT": no scenario could be passed; "NOT TIMED": correct, but no time counts; "FASTER", "SLOWER" if
  // the whole interval lies on one side of 1, else "UNRESOLVED".
  const char* verdict() const {
    if (failed > 0) return "FAILED";
    if (passed == 0) return "NO CREDIT";
    if (!speedup || !low || !high) return "NOT TIMED";
    return *low > 1 ? "FASTER" : *high < 1 ? "SLOWER" : "UNRESOLVED";
  }
};

// One scenario of one run.
struct KernelRecord {
  std::string run_id;
  int64_t started_us = 0;  // of the run
  std::string op;
  int level = 0;
  std::string scenario;
  std::vector<std::string> models;
  int64_t tp = 1;
  int64_t tokens = 0;  // 0: unknown
  std::string dtype;
  std::string candidate;
  std::string verdict;  // "PASSED", "INCORRECT_NUMERICAL", ...
  std::string sentence;
  std::optional<double> err_ratio;
  std::optional<double> baseline_ns, candidate_ns, speedup, low, high;
  std::string speed_verdict;  // "FASTER", "SLOWER", "SAME", "UNRESOLVED"; empty where it was not timed
  std::string invalid;        // why the timing is not ranked
  std::optional<double> delta, control_error;
  std::optional<double> floor_ns, of_floor;
  double bytes = 0, matrix_flops = 0, vector_flops = 0;
  double seconds = 0;     // it took
  std::string confirmed;  // if it beat the best known result: "yes" if confirmed with new seeds, else "no"

  bool passed() const { return verdict == "PASSED"; }
  // Its time counts: the machine was not too noisy to rank it.
  bool ranked() const { return passed() && invalid.empty() && speedup && *speedup > 0; }
  // Not a failure of the candidate: no credit, and no error.
  bool skipped() const { return verdict == "REFUSED" || verdict == "INVALID_TASK"; }
};

// Adds one of its scenarios to an operator's `confirmed`.
inline void add_confirmed(OperatorRecord& o, const KernelRecord& k) {
  if (k.confirmed == "no" || (k.confirmed == "yes" && o.confirmed.empty())) o.confirmed = k.confirmed;
}

// The large parts of a scenario's result that are not in its row.
struct KernelDetail {
  Json detail;           // the whole row as in the result file, with empty lists where samples were
  Json samples;          // by launch, by pair: baseline ns, candidate ns, why the pair does not count
  Json control_samples;  // likewise, the baseline against itself
};

// One path of one model in one `ttft` run.
struct TtftRecord {
  std::string run_id, run_name;
  int64_t started_us = 0;  // of the run
  std::string git_commit;
  std::string path;  // "eager", "compiled", "candidate", "hf", "torch_compile"
  std::string model, model_key, config, device, dtype;
  int64_t threads = 0, prompt_tokens = 0, iters = 0, decode_tokens = 0;
  std::optional<int64_t> search_iters;
  std::optional<double> ttft_ms, ttft_ms_mean, ttft_sequential_ms;  // prefill, its mean, token by token
  std::optional<double> tpot_ms, throughput_tps, compile_ms;
  std::optional<double> prefill_floor_share, decode_floor_share, load_ms;
  std::optional<int64_t> weights_bytes, peak_memory_bytes;
  std::string note, error;
  Json samples = Json::object();  // "prefill", "sequential", "decode": lists of ms, where known
  // "phases" of a search, "seeds", "outputs" compared with those of another path, "settled", "failure": where known.
  Json details = Json::object();
};

struct ArtifactRecord {
  std::string path;  // "kernels/rms_norm.cpp", "logs/rms_norm.txt", "errors/...", "results/kernels.json"
  std::string sha256;
  int64_t size_bytes = 0;
};

}  // namespace fk
