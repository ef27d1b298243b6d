#include "track/comparable.h"

#include <algorithm>

namespace fk {
namespace {

bool has_mean(const OperatorRecord& o) { return o.correct() && o.speedup.has_value(); }

bool same_device(const OperatorRecord& a, const OperatorRecord& b) {
  return a.device == b.device && a.device_name == b.device_name;
}

}  // namespace

std::vector<ComparableRuns> comparable_runs(const std::vector<OperatorRecord>& runs) {
  // Set by the first run that has it, so that a run without a mean joins the group of a later one.
  std::vector<const OperatorRecord*> founders;
  auto founder_of = [&](const OperatorRecord& o) {
    if (has_mean(o))
      return std::find_if(founders.begin(), founders.end(), [&](const OperatorRecord* f) {
        return has_mean(*f) && same_device(*f, o) && f->timed_set == o.timed_set;
      });
    return std::find_if(founders.begin(), founders.end(), [&](const OperatorRecord* f) {
      return same_device(*f, o) && f->scenario_set == o.scenario_set;
    });
  };
  for (bool with_mean : {true, false})
    for (const OperatorRecord& o : runs)
      if (has_mean(o) == with_mean && founder_of(o) == founders.end()) founders.push_back(&o);
  std::vector<std::vector<OperatorRecord>> members(founders.size());
  std::vector<size_t> order;  // of the groups, by their first runs
  for (const OperatorRecord& o : runs) {
    auto group = static_cast<size_t>(founder_of(o) - founders.begin());
    if (members[group].empty()) order.push_back(group);
    members[group].push_back(o);
    if (has_mean(o)) continue;
    OperatorRecord& shown = members[group].back();
    shown.speedup = shown.low = shown.high = std::nullopt;
  }
  std::vector<ComparableRuns> groups;
  for (size_t g : order) {
    const OperatorRecord& f = *founders[g];
    bool mean = has_mean(f);
    groups.push_back({f.device, f.device_name, mean ? f.timed_set : "", mean ? f.timed : 0, std::move(members[g])});
  }
  return groups;
}

}  // namespace fk
