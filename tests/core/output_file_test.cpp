// Output files of commands: written atomically, through links, without replacing special files.
#include "core/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string write_refusal(const std::string& path) {
  try {
    write_file(path, "text");
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

class OutputFileTest : public testing::Test {
 protected:
  fs::path at(const std::string& name) const { return fs::path(folder_.path()) / name; }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }

  TempDirectory folder_;
};

TEST_F(OutputFileTest, WritesAndReplaces) {
  write_file(at("a"), "first");
  write_file(at("a"), "second", true);
  EXPECT_EQ(text_of(at("a")), "second");
  EXPECT_EQ(files(), 1u) << "nothing else is left";
}

TEST_F(OutputFileTest, OneThatIsNotFinishedLeavesWhatWasThere) {
  write_file(at("a"), "before");
  {
    OutputFile file(at("a"));
    file.write("half");
  }
  EXPECT_EQ(text_of(at("a")), "before");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFileTest, ALinkStaysALinkAndItsTargetIsWritten) {
  fs::create_directory(at("data"));
  write_file(at("data/real"), "old");
  fs::create_symlink("data/real", at("link"));
  fs::create_symlink(at("link"), at("link of link"));
  write_file(at("link of link"), "new");
  EXPECT_TRUE(fs::is_symlink(at("link of link")) && fs::is_symlink(at("link")));
  EXPECT_EQ(text_of(at("data/real")), "new");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(at("data/real"))));
}

TEST_F(OutputFileTest, ALinkToNothingMakesItsTarget) {
  fs::create_symlink("to come", at("link"));
  write_file(at("link"), "text");
  EXPECT_TRUE(fs::is_symlink(at("link")));
  EXPECT_EQ(text_of(at("to come")), "text");
}

TEST_F(OutputFileTest, LinksWithoutAnEndAreRefused) {
  fs::create_symlink("b", at("a"));
  fs::create_symlink("a", at("b"));
  EXPECT_NE(write_refusal(at("a")).find("symbolic links"), std::string::npos) << write_refusal(at("a"));
}

TEST_F(OutputFileTest, KeepsTheModeOfTheFileItReplaces) {
  write_file(at("a"), "x");
  ASSERT_EQ(chmod(at("a").c_str(), 0640), 0);
  write_file(at("a"), "y");
  struct stat info {};
  ASSERT_EQ(stat(at("a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
}

TEST_F(OutputFileTest, APipeIsWrittenDirectly) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", at("link"));
  int reader = open(at("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  for (const char* name : {"pipe", "link"}) {
    write_file(at(name), "text", true);
    char got[16] = {};
    EXPECT_EQ(read(reader, got, sizeof got), 4) << name;
    EXPECT_STREQ(got, "text");
  }
  close(reader);
  EXPECT_TRUE(fs::is_fifo(fs::symlink_status(at("pipe"))) && fs::is_symlink(at("link")));
}

// A node of our own with the numbers of /dev/null and /dev/full; only root may make one.
TEST_F(OutputFileTest, ADeviceStaysADevice) {
  if (mknod(at("null").c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) GTEST_SKIP() << "no right to make a device";
  if (open(at("null").c_str(), O_WRONLY) < 0) GTEST_SKIP() << "devices cannot be opened here";
  write_file(at("null"), "text", true);
  EXPECT_TRUE(fs::is_character_file(fs::symlink_status(at("null"))));
  ASSERT_EQ(mknod(at("full").c_str(), S_IFCHR | 0600, makedev(1, 7)), 0);
  EXPECT_NE(write_refusal(at("full")).find("No space left"), std::string::npos) << write_refusal(at("full"));
  EXPECT_TRUE(fs::is_character_file(fs::symlink_status(at("full"))));
  EXPECT_EQ(files(), 2u);
}

TEST_F(OutputFileTest, WhatCannotBeWrittenIsRefusedWithASentence) {
  EXPECT_NE(write_refusal(folder_.path()).find("is a folder"), std::string::npos) << write_refusal(folder_.path());
  EXPECT_NE(write_refusal(at("no folder/a")).find("No such file"), std::string::npos)
      << write_refusal(at("no folder/a"));
  EXPECT_NE(write_refusal("").find("empty name"), std::string::npos) << write_refusal("");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, at("s").c_str(), sizeof address.sun_path - 1);
  int socket_file = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(socket_file, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_NE(write_refusal(at("s")).find("is a socket"), std::string::npos) << write_refusal(at("s"));
  close(socket_file);
}

// /dev/stdout is a link to one of these; a new file under the old name would not be the file that the shell opened.
TEST_F(OutputFileTest, AnOpenFileOfThisProcessIsWrittenWhereItStands) {
  int file = open(at("a").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(write(file, "one ", 4), 4);
  write_file("/proc/self/fd/" + std::to_string(file), "two ");
  ASSERT_EQ(write(file, "three", 5), 5);
  close(file);
  EXPECT_EQ(text_of(at("a")), "one two three");
}

TEST_F(OutputFileTest, ANameAsLongAsNamesCanBe) {
  std::string name(255, 'n');
  write_file(at(name), "text");
  EXPECT_EQ(text_of(at(name)), "text");
}

}  // namespace
}  // namespace fk
