// A store in a temporary folder, and records to put into it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "track/store.h"

namespace fk {

class StoreFolder {
 public:
  StoreFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fastkernels-store-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~StoreFolder() { std::filesystem::remove_all(path_); }
  StoreFolder(const StoreFolder&) = delete;
  StoreFolder& operator=(const StoreFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::string db() const { return path_ / "history.db"; }

 private:
  std::filesystem::path path_;
};

inline RunRecord sample_run(const std::string& id, int64_t started_us = 1'800'000'000'000'000) {
  RunRecord r;
  r.id = id;
  r.name = "kernels rms_norm";
  r.tier = "kernel";
  r.started_us = started_us;
  r.environment.git_commit = "0123456789abcdef0123456789abcdef01234567";
  r.environment.device = "cpu";
  r.environment.cpu_name = "Test CPU";
  r.environment.details = {{"cores", 2}};
  r.params = {{"num_runs", "100"}};
  r.tags = {{"tier", "kernel"}};
  return r;
}

inline KernelRecord sample_result(const std::string& run_id, const std::string& op, const std::string& scenario,
                                  double speedup, const std::string& verdict = "PASSED") {
  KernelRecord k;
  k.run_id = run_id;
  k.op = op;
  k.level = 1;
  k.scenario = scenario;
  k.models = {"llama-3.2-1b"};
  k.tokens = 8;
  k.dtype = "bf16";
  k.candidate = "abc";
  k.verdict = verdict;
  if (verdict != "PASSED") {
    k.sentence = "It is wrong.";
    return k;
  }
  k.err_ratio = 0.25;
  k.speedup = speedup;
  k.low = speedup * 0.98;
  k.high = speedup * 1.02;
  k.baseline_ns = 1000 * speedup;
  k.candidate_ns = 1000;
  k.speed_verdict = speedup > 1.02 ? "FASTER" : "SAME";
  return k;
}

inline KernelDetail sample_detail() {
  KernelDetail d;
  d.detail = {{"explanation", "near the floor"}};
  d.samples = Json::parse("[[[1000.5,900.25,\"\"]]]");
  d.control_samples = Json::array();
  return d;
}

}  // namespace fk
