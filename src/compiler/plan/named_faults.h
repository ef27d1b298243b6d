// NamedFaults: a step that crashes is named before the process ends.
#pragma once

#include <string>

namespace fk {

class NamedFaults {
 public:
  // From now on, for the whole process: SIGSEGV, SIGBUS, SIGFPE and SIGILL print the sentence of the step that runs.
  static void install();

  // While it exists, such a signal prints this sentence. One at a time: steps of a plan run one after the other.
  explicit NamedFaults(const std::string& sentence);
  ~NamedFaults();
  NamedFaults(const NamedFaults&) = delete;
  NamedFaults& operator=(const NamedFaults&) = delete;
};

}  // namespace fk
