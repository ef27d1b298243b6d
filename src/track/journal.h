// Journal: a run as JSON lines, each on disk before the next thing is measured. It survives what interrupts a run,
// needs no library, and `history import` takes it elsewhere.
//
// A line with "event" says something about the run (track/events.h); a line without is one result of `kernels`.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"

namespace fk {

class Journal {
 public:
  explicit Journal(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  // Makes the folder too. Throws Error where the line did not reach the disk as a whole.
  void append(const Json& line) const;
  // Every line that can be read; one cut short by a crash is left out. `damaged` counts those.
  std::vector<Json> lines(size_t* damaged = nullptr) const;
  void remove() const;

 private:
  std::string path_;
};

}  // namespace fk
