#include "validate/probe_plan.h"

#include <algorithm>

#include "core/rng.h"

namespace fk {
namespace {

class Planner {
 public:
  Planner(const PlanShapes& shapes, const JudgeOptions& options)
      : shapes_(shapes), options_(options), stream_(options.seed, "plan") {}

  std::vector<PlannedCall> make() {
    replays();
    std::vector<PlannedCall> rest = varied();
    for (size_t i = rest.size(); i > 1; --i) std::swap(rest[i - 1], rest[stream_.below(next_++, i)]);
    std::move(rest.begin(), rest.end(), std::back_inserter(calls_));
    if (shapes_.full_differs) {
      add("the workload's own shape", standard_family(), shapes_.full, fresh());
      again("the workload's own shape again").same_bits = true;
    }
    if (shapes_.recorded) {
      add("the scenario's own values", standard_family(), shapes_.full, fresh()).recorded = true;
      calls_.back().essential = true;
      again("the scenario's own values again").same_bits = true;
    }
    // Old and new addresses in an unpredictable order.
    for (int i = 0; i < options_.repeats; ++i)
      add("standard, late", standard_family(), shapes_.small, fresh()).placement =
          stream_.u32(next_++) % 2 == 0 ? Placement::kSame : Placement::kNew;
    return std::move(calls_);
  }

 private:
  uint64_t fresh() {
    PhiloxBlock b = stream_.block(1000 + next_++);
    return (uint64_t{b[1]} << 32) | b[0];
  }

  PlannedCall& add(std::string label, const InputFamily& family, const Workload& workload, uint64_t seed) {
    return calls_.emplace_back(
        PlannedCall{.label = std::move(label), .family = &family, .workload = workload, .seed = seed});
  }
  // The data of the previous call, at the same addresses.
  PlannedCall& again(std::string label) {
    PlannedCall call = calls_.back();
    call.label = std::move(label);
    call.placement = Placement::kSame;
    call.same_bits = false;
    calls_.push_back(std::move(call));
    return calls_.back();
  }

  void replays() {
    add("standard", standard_family(), shapes_.small, fresh());
    again("same addresses, same data").same_bits = true;
    add("same addresses, new data", standard_family(), shapes_.small, fresh()).placement = Placement::kSame;
    again("new addresses, same data").placement = Placement::kNew;
    add("new addresses, new data", standard_family(), shapes_.small, fresh());
    again("last element flipped").family = &flip_last_family();
    again("one element flipped").family = &flip_one_family();
    again("other weights").weights = 1;
    calls_.back().family = &standard_family();
    again("the first weights again").weights = 0;
    for (PlannedCall& call : calls_) call.essential = call.family == &standard_family();
  }

  std::vector<PlannedCall> varied() {
    std::vector<PlannedCall> before = std::move(calls_);
    calls_.clear();
    for (const InputFamily& family : input_families()) {
      if (&family == &standard_family() || (family.weights != nullptr && shapes_.large_weights)) continue;
      if (family.special && !shapes_.special) continue;
      add(std::string(family.name), family, shapes_.small, fresh()).weights = 1;
    }
    add("ragged", standard_family(), ragged_workload(shapes_.small), fresh()).weights = 1;
    for (int i = 0; i < options_.random_shapes; ++i)
      add("random shape", standard_family(), random_workload(shapes_.small, Stream(fresh())), fresh()).weights = 1;
    std::swap(before, calls_);
    return before;
  }

  const PlanShapes& shapes_;
  const JudgeOptions& options_;
  Stream stream_;
  uint64_t next_ = 0;
  std::vector<PlannedCall> calls_;
};

}  // namespace

std::vector<PlannedCall> plan_calls(const PlanShapes& shapes, const JudgeOptions& options) {
  return Planner(shapes, options).make();
}

}  // namespace fk
