// The store of measurements: what it keeps, and what it does not believe.
#include "compiler/plan/profile_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace fk {
namespace {

namespace fs = std::filesystem;

class Profiles : public testing::Test {
 protected:
  Profiles() : folder_(fs::path(testing::TempDir()) / "fk_profiles"), store_(folder_.string()) {
    fs::remove_all(folder_);
  }
  static TrialResult result(double speedup) {
    return {"", {{1, 100, 100 / speedup, speedup, speedup - 0.01, speedup + 0.01, "FASTER"}}};
  }
  fs::path file(const std::string& key) const { return folder_ / (key + ".profile"); }

  fs::path folder_;
  ProfileStore store_;
};

TEST_F(Profiles, KeepResults) {
  EXPECT_FALSE(store_.find("a"));
  ASSERT_TRUE(store_.store("a", result(1.25)));
  std::optional<TrialResult> found = ProfileStore(folder_.string()).find("a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->timings[0].speedup, 1.25);
  EXPECT_TRUE(found->wins());
  EXPECT_EQ(store_.clear(), 1);
  EXPECT_FALSE(store_.find("a"));
}

TEST_F(Profiles, DoNotReadWhatIsIncompleteOrChanged) {
  ASSERT_TRUE(store_.store("a", result(1.25)));
  std::ostringstream text;
  text << std::ifstream(file("a")).rdbuf();
  std::string whole = text.str();
  std::ofstream(file("a")) << whole.substr(0, whole.size() / 2);
  EXPECT_FALSE(store_.find("a")) << "cut";
  std::string other = whole;
  other[other.find("1.25")] = '9';
  std::ofstream(file("a")) << other;
  EXPECT_FALSE(store_.find("a")) << "changed";
  std::ofstream(file("a")) << "";
  EXPECT_FALSE(store_.find("a")) << "empty";
  ASSERT_TRUE(store_.store("a", result(1.5)));
  EXPECT_EQ(store_.find("a")->timings[0].speedup, 1.5);
}

TEST_F(Profiles, AreLimited) {
  for (int i = 0; i < 6; ++i) {
    store_.store(std::to_string(i), result(1.1));
    fs::last_write_time(file(std::to_string(i)), fs::file_time_type::clock::now() + std::chrono::seconds(i));
  }
  store_.prune(2);
  EXPECT_FALSE(store_.find("3"));
  EXPECT_TRUE(store_.find("4"));
  EXPECT_TRUE(store_.find("5"));
}

TEST_F(Profiles, WhatIsReadIsNotOld) {
  for (int i = 0; i < 3; ++i) {
    store_.store(std::to_string(i), result(1.1));
    fs::last_write_time(file(std::to_string(i)), fs::file_time_type::clock::now() - std::chrono::hours(3 - i));
  }
  EXPECT_TRUE(store_.find("0"));
  store_.prune(1);
  EXPECT_TRUE(store_.find("0"));
  EXPECT_FALSE(store_.find("2"));
}

// What the machine caused would otherwise be believed until the cache is removed.
TEST_F(Profiles, KeepOnlyWhatWouldHappenAgain) {
  for (TrialEnd end : {TrialEnd::kUnfinished, TrialEnd::kKilled, TrialEnd::kNotCompiled, TrialEnd::kFailed}) {
    EXPECT_FALSE(store_.store("a", failed_trial(end, "why"))) << trial_end_text(end);
    EXPECT_FALSE(store_.find("a"));
  }
  TrialResult noisy = result(1.25);
  noisy.timings.push_back(noisy.timings[0]);
  noisy.timings[1].verdict = "INVALID";
  EXPECT_FALSE(store_.store("a", noisy));
  for (TrialEnd end : {TrialEnd::kWrong, TrialEnd::kCallsOff, TrialEnd::kCrashed}) {
    EXPECT_TRUE(store_.store("a", failed_trial(end, "why")));
    ASSERT_TRUE(store_.find("a"));
    EXPECT_EQ(store_.find("a")->end, end);
    EXPECT_EQ(store_.find("a")->failure, "why");
  }
}

TEST_F(Profiles, AFolderThatCannotBeWrittenIsNoError) {
  EXPECT_FALSE(ProfileStore("/proc/no/such").store("a", result(1)));
  EXPECT_FALSE(ProfileStore("/proc/no/such").find("a"));
  EXPECT_EQ(ProfileStore("/proc/no/such").clear(), 0);
}

TEST(ProfileKeys, DependOnKernelRowsAndThreads) {
  TrialOptions one{.rows = {1}, .threads = 1}, two{.rows = {1}, .threads = 2}, rows{.rows = {1, 2}, .threads = 1};
  EXPECT_EQ(profile_key("k", one), profile_key("k", one));
  EXPECT_NE(profile_key("k", one), profile_key("l", one));
  EXPECT_NE(profile_key("k", one), profile_key("k", two));
  EXPECT_NE(profile_key("k", one), profile_key("k", rows));
}

}  // namespace
}  // namespace fk
