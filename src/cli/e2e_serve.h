// `e2e serve`: loads a running OpenAI-compatible server, ours or another, and measures what its clients see; with
// --compiled servers of its own, by plans and by the tree.
#pragma once

#include <string>
#include <vector>

#include "cli/compiled_path.h"
#include "cli/dataset_options.h"
#include "cli/options.h"
#include "cli/record_options.h"

namespace fk {

class E2eServe {
 public:
  void add_flags(FlagSet& flags);
  void run(const CommonOptions& common);

 private:
  void check_compiled_flags() const;

  DatasetFlags dataset_;
  RecordOptions record_;
  std::string base_url_, host_ = "127.0.0.1", endpoint_ = "/v1/completions", model_, tokenizer_, ramp_up_, output_json_;
  int64_t port_ = 8000, vocab_size_ = 0;
  std::vector<std::string> rates_ = {"inf"}, goodput_;
  std::vector<int64_t> concurrency_;
  double burstiness_ = 1, start_rps_ = 0, end_rps_ = 0, temperature_ = 0, timeout_s_ = 6 * 3600;
  bool ignore_eos_ = false, compiled_ = false;
  std::string serve_flags_;
  SearchFlags search_;
  int64_t rounds_ = 5, repeats_ = 3;
  const FlagSet* flags_ = nullptr;
};

}  // namespace fk
