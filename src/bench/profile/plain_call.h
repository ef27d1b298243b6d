// PlainCall: calls an operator in this process, without judge and sandbox, for a profiler.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/scenarios/scenario.h"
#include "ops/materialize.h"

namespace fk {

class PlainCall {
 public:
  // Builds the operator on the device with the implementation that is ranked first, and creates the data of the call
  // there.
  PlainCall(const Scenario& scenario, Device device, int threads, uint64_t seed);
  ~PlainCall();

  void run();                       // one call, waited for
  double median_ns(int calls);      // of single calls, by the device's clock
  std::string implementation();     // that took the calls so far
  void mark_for_profiler(bool on);  // profiles the work in between; no effect on the CPU

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fk
