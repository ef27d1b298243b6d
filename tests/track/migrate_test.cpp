// Stores of every earlier version open, with all that was in them.
#include "track/sqlite/migrate.h"

#include <gmock/gmock.h>

#include <span>

#include "tests/track/store_fixture.h"
#include "track/sha256.h"

namespace fk {

extern const std::span<const std::pair<std::string_view, std::string_view>> kStoreSchema;

namespace {

class EveryVersion : public testing::TestWithParam<int> {};

// A migration computes the same values for old rows as new rows get.
void expect_scenarios_as_of_a_new_run(Store& store, const OperatorRecord& old) {
  store.begin_run(sample_run("again"));
  KernelRecord same = sample_result("again", "rms_norm", "a", 1.5);
  same.dtype.clear();
  store.add_kernel_result(same, sample_detail());
  OperatorRecord now = store.operator_results("again").at(0);
  EXPECT_EQ(old.timed, 1);
  EXPECT_EQ(old.timed_set, now.timed_set);
  EXPECT_EQ(old.scenario_set, now.scenario_set);
  store.remove_run("again");
}

TEST_P(EveryVersion, OpensAndKeepsItsRows) {
  StoreFolder folder;
  {
    Database old(folder.db(), Database::Mode::kReadWrite);
    migrate(old, GetParam());
    ASSERT_EQ(schema_version_of(old), GetParam());
    old.execute(
        "INSERT INTO runs (run_id, name, experiment, tier, status, started_us) VALUES ('x', 'old', 'fastkernels', "
        "'kernel', 'finished', 7)");
    old.execute("INSERT INTO metrics (run, key, value, time_us) VALUES (1, 'avg_speedup', 1.5, 7)");
    old.execute(
        "INSERT INTO kernel_results (run, op, scenario, verdict, speedup) VALUES (1, 'rms_norm', 'a', 'PASSED', 1.5)");
    old.execute("INSERT INTO ttft_results (run, path, model, ttft_ms) VALUES (1, 'eager', 'm', 2.5)");
    old.execute("INSERT INTO operators (op, run, passed, speedup, candidate) VALUES ('rms_norm', 1, 1, 1.5, 'abc')");
  }
  auto store = open_store(folder.db());
  EXPECT_EQ(store->run("x")->metrics["avg_speedup"], 1.5);
  EXPECT_EQ(store->kernel_results("x").at(0).speedup, 1.5);
  EXPECT_EQ(store->ttft_results("x").at(0).ttft_ms, 2.5);
  EXPECT_EQ(store->ttft_results("x").at(0).details, Json::object());
  OperatorRecord summary = store->operator_results("x").at(0);
  EXPECT_EQ(summary.speedup, 1.5);
  if (GetParam() < 4) expect_scenarios_as_of_a_new_run(*store, summary);
  store->begin_run(sample_run("y"));
  store->set_mirror("http://server", "y", "remote", true);
  EXPECT_THAT(store->unmirrored("http://server"), testing::ElementsAre("x"));
  Database again(folder.db(), Database::Mode::kReadOnly);
  EXPECT_EQ(schema_version_of(again), schema_version());
}

// In an older version, the mean of an interrupted run included invalid times.
TEST(Migrate, ATimeThatRanksNothingIsNoSpeedUp) {
  StoreFolder folder;
  {
    Database old(folder.db(), Database::Mode::kReadWrite);
    migrate(old, 3);
    old.execute(
        "INSERT INTO runs (run_id, name, experiment, tier, status, started_us) VALUES ('x', 'old', 'fastkernels', "
        "'kernel', 'interrupted', 7)");
    old.execute(
        "INSERT INTO kernel_results (run, op, scenario, verdict, speedup, invalid) VALUES (1, 'rms_norm', 'a', "
        "'PASSED', 1.5, 'too noisy')");
    old.execute("INSERT INTO ttft_results (run, path, model, ttft_ms) VALUES (1, 'eager', 'm', 2.5)");
    old.execute("INSERT INTO operators (op, run, passed, speedup, candidate) VALUES ('rms_norm', 1, 1, 1.5, 'abc')");
  }
  OperatorRecord o = open_store(folder.db())->operator_results("x").at(0);
  EXPECT_EQ(o.speedup, std::nullopt);
  EXPECT_STREQ(o.verdict(), "NOT TIMED");
}

INSTANTIATE_TEST_SUITE_P(Schema, EveryVersion, testing::Range(1, schema_version() + 1));

// Stores of these versions exist: released migrations are never edited, only new ones are added.
TEST(Migrate, ReleasedVersionsStayAsTheyWere) {
  const std::vector<std::string> released = {
      "f759cbf024bbebb9d4eda1a307a56f52cc2a121fb3e2c19ddde9e83181abbfc9",
      "89ab9153c5064d8ae980e88531622986cc114014e4b99f6108fce281dbf973b7",
      "cc2333b2e98bd56b47eb5ccbf20633173a12e987209bee213428f5790fb69bfd",
  };
  ASSERT_GE(kStoreSchema.size(), released.size());
  for (size_t i = 0; i < released.size(); ++i)
    EXPECT_EQ(sha256_hex(kStoreSchema[i].second), released[i])
        << kStoreSchema[i].first << " changed; add a file instead";
}

TEST(Migrate, RefusesNewerStoresAndOtherPrograms) {
  StoreFolder folder;
  open_store(folder.db());
  {
    Database newer(folder.db(), Database::Mode::kReadWrite);
    newer.execute_script("PRAGMA user_version = 99");
    Database other(folder / "other.db", Database::Mode::kReadWrite);
    other.execute_script("CREATE TABLE theirs (x)");
  }
  auto error_of = [](const std::string& path) {
    try {
      open_store(path);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_of(folder.db()), testing::HasSubstr("newer fastkernels (schema 99"));
  EXPECT_THAT(error_of(folder / "other.db"), testing::HasSubstr("another program"));
}

}  // namespace
}  // namespace fk
