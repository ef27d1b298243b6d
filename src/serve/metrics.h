// Metrics: counters and distributions of what the server did, as Prometheus text with vLLM's names.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json_fwd.h"
#include "engine/engine.h"

namespace fk {

class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}

  void add(double value, uint64_t times = 1);

  std::span<const double> bounds() const { return bounds_; }
  // One more than bounds: the last one is of values above all of them. Not cumulative.
  const std::vector<uint64_t>& counts() const { return counts_; }
  uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
  double sum_ = 0;
};

// Used on the server's thread only.
class Metrics {
 public:
  Metrics();

  Histogram time_to_first_token, inter_token_latency, time_per_output_token, e2e_latency;
  Histogram prompt_length, generation_length;
  std::map<std::string, uint64_t> finished;                 // by reason
  std::map<std::pair<std::string, int>, uint64_t> answers;  // by path and status
  uint64_t client_gone = 0;
  int64_t open_connections = 0;

  std::string prometheus(const std::string& model, const EngineStats& engine) const;
  // The same for the live page: numbers since the start, so that a reader takes differences.
  Json live(const std::string& model, const EngineStats& engine) const;
};

}  // namespace fk
