// The result file of a `kernels` run, and the path of the run's journal (track/journal.h) beside it.
//
// A resumed run reuses the journal's results whose candidate and scenario are unchanged.
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
  // If `path` is empty, results/kernels_<time>.json in bench_folder(). Creates the folder. Throws Error if the file
  // cannot be written.
  explicit ResultFile(std::string path);

  const std::string& path() const { return path_; }
  const std::string& journal_path() const { return journal_path_; }  // the same name with .jsonl

  // Replaces the file atomically. `finished`: the journal is no longer needed and is removed.
  void write(const Json& document, bool finished) const;
  // The same; returns why it failed, and leaves no incomplete file.
  std::string try_write(const Json& document, bool finished) const;

  // The lines of the journal that an earlier run of this file left.
  std::vector<Json> journal() const;

 private:
  std::string path_, journal_path_;
};

}  // namespace fk
