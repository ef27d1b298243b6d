// `e2e throughput` and `e2e latency`: the engine in this process, without a server; with candidates against without, or
// plans against the tree.
#pragma once

#include <string>
#include <vector>

#include "bench/e2e/engine_bench.h"
#include "cli/candidate_options.h"
#include "cli/compiled_path.h"
#include "cli/dataset_options.h"
#include "cli/engine_options.h"
#include "cli/model_options.h"
#include "cli/record_options.h"
#include "cli/side_processes.h"

namespace fk {

class Ranks;

class E2eEngine {
 public:
  enum class Kind { kThroughput, kLatency };
  explicit E2eEngine(Kind kind) : kind_(kind) {}

  void add_flags(FlagSet& flags);
  void run(const CommonOptions& common);

 private:
  bool throughput() const { return kind_ == Kind::kThroughput; }
  const char* name() const { return throughput() ? "throughput" : "latency"; }
  DatasetOptions dataset(uint64_t seed, int64_t load) const;
  void run_one_side(ModelSource source, CommonOptions& common, Recorder& recorder, Ranks& ranks);
  void run_compare(const CommonOptions& common, Recorder& recorder, bool candidates);
  BatchingOptions engine_options(const std::vector<BenchRequest>& requests) const;
  RunRecord make_run(const CommonOptions& common) const;
  Json result_json(const Model& model, const EngineBenchResult& result, const CommonOptions& common) const;

  const Kind kind_;
  ModelOptions model_;
  CandidateOptions candidates_;
  std::vector<CandidateRecord> judged_;
  std::vector<CandidateUse> uses_;
  DatasetFlags dataset_;
  BatchingOptions engine_;
  RecordOptions record_;
  int64_t tp_ = 1, batch_size_ = 8, input_len_ = 512, output_len_ = 128, warmups_ = 10, iters_ = 30;
  int64_t rounds_ = 5, repeats_ = 1;
  const FlagSet* flags_ = nullptr;
  const Flag* repeats_flag_ = nullptr;
  const Flag* warmups_flag_ = nullptr;
  bool no_compare_ = false, attribute_ = false, compiled_ = false;
  SearchFlags search_;
  Json plan_;  // of a run by plans
  std::string leave_unfused_, output_json_, tokenizer_;
  SpeculativeFlag speculative_;
  Json dispatches_;
  std::string warning_;  // about a dataset that is too short
};

}  // namespace fk
