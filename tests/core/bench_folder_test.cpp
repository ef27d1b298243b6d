// Where results go: to the project or to the user's folder, never to an arbitrary current folder.
#include "core/bench_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <vector>

namespace fk {
namespace {

namespace fs = std::filesystem;

class BenchFolder : public testing::Test {
 protected:
  BenchFolder() : before_(fs::current_path()) {
    std::string pattern = (fs::temp_directory_path() / "fastkernels-test-XXXXXX").string();
    folder_ = fs::canonical(mkdtemp(pattern.data()));
    for (const char* name : {"FASTKERNELS_HOME", "XDG_DATA_HOME", "HOME"}) {
      const char* value = getenv(name);
      kept_.emplace_back(name, value == nullptr ? "" : value);
      unsetenv(name);
    }
    setenv("HOME", "/home/somebody", 1);
  }
  ~BenchFolder() override {
    fs::current_path(before_);
    for (const auto& [name, value] : kept_)
      if (value.empty())
        unsetenv(name.c_str());
      else
        setenv(name.c_str(), value.c_str(), 1);
    fs::remove_all(folder_);
  }

  fs::path folder_, before_;
  std::vector<std::pair<std::string, std::string>> kept_;
};

TEST_F(BenchFolder, IsThatOfTheProjectFromAnywhereInIt) {
  fs::create_directories(folder_ / "tasks/candidate/L1");
  fs::create_directories(folder_ / "src/deep");
  fs::current_path(folder_);
  EXPECT_EQ(bench_folder(), "bench");
  fs::current_path(folder_ / "src/deep");
  EXPECT_EQ(bench_folder(), (folder_ / "bench").string());
}

TEST_F(BenchFolder, IsTheUsersOwnOutsideOfAProject) {
  fs::current_path(folder_);
  EXPECT_EQ(bench_folder(), "/home/somebody/.local/share/fastkernels/bench");
  setenv("XDG_DATA_HOME", "/data", 1);
  EXPECT_EQ(bench_folder(), "/data/fastkernels/bench");
  unsetenv("HOME");
  unsetenv("XDG_DATA_HOME");
  EXPECT_EQ(bench_folder().rfind("/tmp/fastkernels-", 0), 0u);
}

TEST_F(BenchFolder, IsWhereItsVariableSaysEvenInAProject) {
  fs::create_directories(folder_ / "tasks/candidate");
  fs::current_path(folder_);
  setenv("FASTKERNELS_HOME", "/somewhere", 1);
  EXPECT_EQ(bench_folder(), "/somewhere/bench");
}

TEST_F(BenchFolder, OfAFolderThatIsGoneIsTheUsersOwn) {
  fs::create_directories(folder_ / "gone");
  fs::current_path(folder_ / "gone");
  fs::remove(folder_ / "gone");
  EXPECT_EQ(bench_folder(), "/home/somebody/.local/share/fastkernels/bench");
  fs::current_path(before_);
}

}  // namespace
}  // namespace fk
