// When the requests of a load are sent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fk {

struct ArrivalOptions {
  double request_rate = 0;  // per second; 0: all at once
  // 1: a Poisson process. Gaps have a gamma distribution of this shape: below 1 requests come in bursts, above 1
  // evenly.
  double burstiness = 1;
  // "linear" or "exponential": the rate goes from start_rps to end_rps over the requests, and request_rate is not used.
  std::string ramp_up = "";
  double start_rps = 0, end_rps = 0;
  uint64_t seed = 0;
};

// Seconds after the start, one per request, ascending. As in vLLM the times are stretched so that the last request
// comes after as many seconds as the rate says: a short load has exactly its rate.
std::vector<double> arrival_times(const ArrivalOptions& options, int64_t requests);

}  // namespace fk
