#include "bench/eval/score.h"

#include <algorithm>
#include <cmath>

namespace fk {

std::optional<double> geometric_mean(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

std::optional<double> EvalItem::throughput_speedup() const {
  return failed ? std::nullopt : geometric_mean(throughput_speedups);
}
std::optional<double> EvalItem::latency_speedup() const {
  return failed ? std::nullopt : geometric_mean(latency_speedups);
}
std::optional<double> EvalItem::blended_speedup() const {
  std::optional<double> throughput = throughput_speedup(), latency = latency_speedup();
  if (!throughput || !latency) return std::nullopt;
  return std::sqrt(*throughput * *latency);
}

std::optional<EvalScore> eval_score(std::span<const EvalItem> items) {
  if (items.empty()) return std::nullopt;
  EvalScore all;
  std::vector<std::vector<double>> speedups;  // of the valid items, by category
  for (const EvalItem& item : items) {
    auto known = std::find_if(all.categories.begin(), all.categories.end(),
                              [&](const CategoryScore& c) { return c.category == item.category; });
    auto index = static_cast<size_t>(known - all.categories.begin());
    if (known == all.categories.end()) {
      all.categories.push_back({.category = item.category, .speedup = {}});
      speedups.emplace_back();
    }
    CategoryScore& category = all.categories[index];
    ++category.items;
    category.correctness += item.correctness();
    if (!item.valid()) continue;
    ++category.valid;
    speedups[index].push_back(*item.blended_speedup());
  }
  std::vector<double> of_categories;
  for (size_t i = 0; i < all.categories.size(); ++i) {
    CategoryScore& category = all.categories[i];
    category.correctness /= static_cast<double>(category.items);
    category.coverage = static_cast<double>(category.valid) / static_cast<double>(category.items);
    category.speedup = geometric_mean(speedups[i]);
    if (category.speedup) of_categories.push_back(*category.speedup);
    all.correctness += category.correctness / static_cast<double>(all.categories.size());
    all.coverage += category.coverage / static_cast<double>(all.categories.size());
  }
  all.speedup = geometric_mean(of_categories);
  if (all.speedup) all.score = *all.speedup * all.correctness * all.coverage;
  return all;
}

}  // namespace fk
