// The result file of a `kernels` run, and the journal that survives what interrupts one.
//
// The journal is JSON lines beside the result file, one a scenario, on disk before the next scenario starts. A run that
// resumes takes over the lines whose candidate and scenario are still the same.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace fk {

inline constexpr std::string_view kKernelsSchema = "fastkernels.kernels/1";

class ResultFile {
 public:
  // "bench/results/kernels_<time>.json" where `path` is empty. Makes the folder. Throws Error where it cannot be
  // written.
  explicit ResultFile(std::string path);

  const std::string& path() const { return path_; }
  std::string journal_path() const { return path_ + "l"; }  // .jsonl

  // Keeps one scenario's result at once.
  void append(const Json& result) const;
  // Replaces the file as a whole or not at all. The journal of a finished run has done its work and goes.
  void write(const Json& document, bool finished) const;

  // The journal of an earlier run of this file; a last line cut short by a crash is left out.
  std::vector<Json> journal() const;

 private:
  std::string path_;
};

}  // namespace fk
