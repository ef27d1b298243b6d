#include "bench/ttft/suite_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "core/closest.h"
#include "core/error.h"

namespace fk {
namespace {

std::vector<const SuiteConfig*> chosen_configs(const std::vector<SuiteConfig>& configs, SuiteMode mode,
                                               const std::string& chosen) {
  std::vector<const SuiteConfig*> result;
  std::vector<std::string> names;
  for (const SuiteConfig& c : configs) {
    names.push_back(c.name);
    if (chosen.empty() || c.name == chosen) result.push_back(&c);
  }
  if (result.empty())
    throw UsageError("The suite has no configuration '{}'{} it has {}.", chosen, did_you_mean(chosen, names),
                     fmt::join(names, ", "));
  if (mode == SuiteMode::kSingle && result.size() > 1)
    throw UsageError("--mode single runs one configuration; name it with --config: {}.", fmt::join(names, ", "));
  return result;
}

int64_t as_number(const std::optional<int64_t>& budget) { return budget.value_or(std::numeric_limits<int64_t>::max()); }

}  // namespace

const std::vector<std::string>& suite_mode_names() {
  static const std::vector<std::string> names = {"single", "all-configs", "search-sweep", "ur-test", "ur-test-fast"};
  return names;
}

SuiteMode suite_mode_of(const std::string& name) {
  const std::vector<std::string>& names = suite_mode_names();
  return static_cast<SuiteMode>(std::find(names.begin(), names.end(), name) - names.begin());
}

std::vector<SuiteRow> plan_suite(const std::vector<SuiteConfig>& configs, SuiteMode mode, const std::string& chosen) {
  const std::vector<const SuiteConfig*> selected = chosen_configs(configs, mode, chosen);
  std::vector<SuiteRow> rows;
  auto add = [&](const SuiteConfig* config, const std::string& path, std::optional<int64_t> budget) {
    SuiteRow row{config, path, config->generated_kernels ? budget : std::nullopt};  // without a search
    if (auto skip = config->skip.find(path); skip != config->skip.end()) row.skipped = skip->second;
    rows.push_back(std::move(row));
  };
  const bool all = mode == SuiteMode::kUrTest || mode == SuiteMode::kUrTestFast;
  if (mode != SuiteMode::kSearchSweep)
    for (const SuiteConfig* config : selected)
      for (const std::string& path : all_paths())
        if (all || std::find(config->paths.begin(), config->paths.end(), path) != config->paths.end())
          add(config, path, path == kPathCompiled ? config->search_budget : std::nullopt);
  if (mode == SuiteMode::kSearchSweep || mode == SuiteMode::kUrTest)
    for (const SuiteConfig* config : selected)
      for (int64_t budget : config->sweep_budgets) {
        // The row above is the same measurement.
        const bool done = std::any_of(rows.begin(), rows.end(), [&](const SuiteRow& row) {
          return row.config == config && row.path == kPathCompiled &&
                 (row.budget == budget || !config->generated_kernels);
        });
        if (!done) add(config, kPathCompiled, budget);
      }
  return rows;
}

void MemoryHistory::ran_out(const SuiteRow& row, int64_t peak_bytes) {
  Limit& limit = limits_.try_emplace({row.config, row.path}, Limit{row.budget, peak_bytes}).first->second;
  if (as_number(row.budget) < as_number(limit.budget)) limit = {row.budget, peak_bytes};
}

std::string MemoryHistory::reason(const SuiteRow& row) const {
  auto found = limits_.find({row.config, row.path});
  if (found == limits_.end() || as_number(row.budget) < as_number(found->second.budget)) return "";
  const Limit& limit = found->second;
  return fmt::format("it ran out of memory {} with a peak of {:.2f} GiB",
                     limit.budget ? fmt::format("at budget {}", *limit.budget) : std::string("before"),
                     static_cast<double>(limit.peak_bytes) * 0x1p-30);
}

}  // namespace fk
