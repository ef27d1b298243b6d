// The score of an evaluation: how much faster the models of a sweep are with the candidates, how correct, and how many.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fk {

// One model on so many ranks.
struct EvalItem {
  std::string category;
  std::vector<double> throughput_speedups, latency_speedups;  // by workload; above 1: the candidate is faster
  int64_t aligned = 0, checks = 0;                            // checks of its outputs, and how many were passed
  bool failed = false;                                        // it did not end: not correct, whatever was passed

  bool valid() const {
    return !failed && checks > 0 && aligned == checks && !throughput_speedups.empty() && !latency_speedups.empty();
  }
  double correctness() const {
    return failed || checks == 0 ? 0 : static_cast<double>(aligned) / static_cast<double>(checks);
  }
  // Geometric means; nothing without a workload of the kind, or for an item that failed.
  std::optional<double> throughput_speedup() const;
  std::optional<double> latency_speedup() const;
  std::optional<double> blended_speedup() const;  // the square root of the product of the two
};

struct CategoryScore {
  std::string category;
  int64_t items = 0, valid = 0;
  double correctness = 0;         // mean over all items
  double coverage = 0;            // share of valid items
  std::optional<double> speedup;  // geometric mean over the valid ones; nothing without one
};

struct EvalScore {
  std::vector<CategoryScore> categories;  // in the order of their first items
  double correctness = 0, coverage = 0;   // means over the categories
  std::optional<double> speedup;          // geometric mean over the categories with a valid item
  double score = 0;                       // the product of the three; 0 without a valid item
};

// Nothing for an empty sweep.
std::optional<EvalScore> eval_score(std::span<const EvalItem> items);

// Nothing for an empty list.
std::optional<double> geometric_mean(std::span<const double> values);

}  // namespace fk
