// Journal: a run as JSON lines, each on disk before the next measurement. It survives crashes, needs no library, and
// `history import` reads it.
//
// A line with "event" is an event of the run (track/events.h); a line without is one result of `kernels`.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"

namespace fk {

class Journal {
 public:
  explicit Journal(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  // Makes the folder too. Throws Error if the line was not written completely.
  void append(const Json& line) const;
  // Every line that can be read; incomplete lines are left out and counted in `damaged`.
  std::vector<Json> lines(size_t* damaged = nullptr) const;
  void remove() const;

 private:
  std::string path_;
};

}  // namespace fk
