// What a search chooses, from measurements that are planted in its profile store.
#include "compiler/plan/search_plan.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <set>

#include "compiler/plan/generated_kernel.h"
#include "compiler/plan/profile_store.h"
#include "engine/model.h"
#include "graph/flatten.h"
#include "graph/trace.h"
#include "models/resolve.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

class SearchPlan : public testing::Test {
 protected:
  SearchPlan() : folder_(fs::path(testing::TempDir()) / "fk_search_plan") {
    fs::remove_all(folder_);
    ModelSource source = resolve_model("tiny-gla");
    std::unique_ptr<Node> root = build_model(source.config, {.oracle = true});
    flat_ = flatten(trace_graph(*root, source.name, GraphPhase::kDecode, source.config.facts.dtype));
    options_.cache_folder = folder_.string();
  }
  ~SearchPlan() override { fs::remove_all(folder_); }

  // Kernels of the regions without these calls are known to be faster where `wins` says so.
  void plant(const std::set<size_t>& left_out, const std::function<bool(const std::string& calls)>& wins) {
    TrialOptions trial{.phase = GraphPhase::kDecode, .rows = timed_rows(GraphPhase::kDecode)};
    ProfileStore store(folder_.string() + "/profiles");
    for (const FoundRegion& f : find_regions(flat_, nullptr, DeviceKind::kCpu, left_out)) {
      RegionDraft draft = draft_of(f, flat_);
      TrialResult result;
      const bool faster = wins(draft.calls);
      result.timings.push_back({1, 100, faster ? 50.0 : 200.0, faster ? 2.0 : 0.5, faster ? 1.9 : 0.4,
                                faster ? 2.1 : 0.6, faster ? "FASTER" : "SLOWER"});
      ASSERT_TRUE(store.store(profile_key(draft.key, trial), result));
    }
  }
  std::set<size_t> nodes_of(const std::set<std::string>& ops) const {
    std::set<size_t> nodes;
    for (size_t n = 0; n < flat_.nodes.size(); ++n)
      if (ops.count(flat_.nodes[n].op) > 0) nodes.insert(n);
    return nodes;
  }
  static bool has(const std::string& calls, const char* op) { return calls.find(op) != calls.npos; }

  fs::path folder_;
  GraphBody flat_;
  SearchOptions options_;
};

constexpr char kRecurrence[] = "fused_recurrent_gla";
constexpr char kAllFour[] = "linear + logsigmoid + fused_recurrent_gla + rms_norm_gated";

TEST_F(SearchPlan, SlowCallsBesideARecurrenceAndAProductThatLoseAreTriedWithoutThem) {
  plant({}, [](const std::string& calls) { return !has(calls, "linear"); });
  plant(nodes_of({kRecurrence}), [](const std::string& calls) { return !has(calls, "linear"); });
  plant(nodes_of({kRecurrence, "linear"}), [](const std::string&) { return true; });
  PhasePlan plan = search_plan(flat_, GraphPhase::kDecode, options_);
  std::set<std::string> chosen, lost;
  for (const KernelChoice& k : plan.kernels) {
    EXPECT_TRUE(k.known) << k.calls << " was measured";
    (k.chosen ? chosen : lost).insert(k.calls);
  }
  EXPECT_EQ(lost, (std::set<std::string>{kAllFour, "linear + logsigmoid"})) << "they are still listed";
  EXPECT_EQ(chosen.count("logsigmoid"), 1u);
  EXPECT_EQ(chosen.count("rms_norm_gated"), 1u);
  for (const PlannedRegion& r : plan.regions)
    for (size_t n : r.region.nodes) {
      EXPECT_NE(flat_.nodes[n].op, "linear");
      EXPECT_NE(flat_.nodes[n].op, kRecurrence);
    }
  EXPECT_EQ(plan.calls - plan.calls_planned, 3);
}

TEST_F(SearchPlan, SlowAProductStaysWithTheCallsBesideItWhereOnlyTheRecurrenceLoses) {
  plant({}, [](const std::string& calls) { return !has(calls, kRecurrence); });
  plant(nodes_of({kRecurrence}), [](const std::string&) { return true; });
  PhasePlan plan = search_plan(flat_, GraphPhase::kDecode, options_);
  std::set<std::string> chosen;
  for (const KernelChoice& k : plan.kernels)
    if (k.chosen) chosen.insert(k.calls);
  EXPECT_EQ(chosen.count("linear + logsigmoid"), 1u);
  EXPECT_EQ(chosen.count(kAllFour), 0u);
}

TEST_F(SearchPlan, SlowWhatWinsStaysTogether) {
  plant({}, [](const std::string&) { return true; });
  PhasePlan plan = search_plan(flat_, GraphPhase::kDecode, options_);
  std::set<std::string> calls;
  for (const KernelChoice& k : plan.kernels) {
    EXPECT_TRUE(k.chosen) << k.calls;
    calls.insert(k.calls);
  }
  EXPECT_EQ(calls.count(kAllFour), 1u);
  EXPECT_EQ(calls.count("logsigmoid"), 0u);
}

}  // namespace
}  // namespace fk
