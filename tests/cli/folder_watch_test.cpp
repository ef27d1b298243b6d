// Every way of saving a file is noticed, and nothing else.
#include "cli/folder_watch.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace fk {
namespace {

namespace fs = std::filesystem;

class Watch : public testing::Test {
 protected:
  Watch() {
    std::string pattern = (fs::temp_directory_path() / "fastkernels-test-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~Watch() override { fs::remove_all(folder_); }
  void write(const std::string& name) const { std::ofstream(folder_ / name) << "text"; }
  fs::path folder_;
};

TEST_F(Watch, SeesFilesWrittenInPlaceAndFilesThatTakeTheirName) {
  fs::create_directories(folder_ / "L1");
  write("L1/a.cpp");
  FolderWatch watch(folder_);
  EXPECT_FALSE(watch.changed());
  write("L1/a.cpp");
  EXPECT_TRUE(watch.changed());
  watch.wait();
  EXPECT_FALSE(watch.changed());
  write("L1/.a.cpp.swp");
  write("L1/a.cpp~");
  EXPECT_FALSE(watch.changed()) << "what editors keep for themselves";
  fs::rename(folder_ / "L1/a.cpp~", folder_ / "L1/a.cpp");
  EXPECT_TRUE(watch.changed());
  watch.wait();
}

TEST_F(Watch, SeesFoldersThatAreMadeLater) {
  FolderWatch watch(folder_ / "tasks/candidate");
  EXPECT_FALSE(watch.changed());
  fs::create_directories(folder_ / "tasks/candidate/L1");
  watch.wait();
  write("tasks/candidate/L1/a.cpp");
  EXPECT_TRUE(watch.changed());
  watch.wait();
  fs::remove_all(folder_ / "tasks");
  watch.wait();
  fs::create_directories(folder_ / "tasks/candidate/L1");
  watch.wait();
  write("tasks/candidate/L1/a.cpp");
  EXPECT_TRUE(watch.changed());
}

}  // namespace
}  // namespace fk
