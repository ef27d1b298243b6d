// Mapped files: what is refused, and the message if a file is truncated while it is read.
#include "models/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/input_file.h"
#include "models/config.h"
#include "models/lost_pages.h"
#include "models/tokenizer.h"
#include "tests/models/error_text.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

TEST(LostPages, AFileMadeShorterIsNamed) {
  TempDirectory folder;
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::string path = folder.write("model.safetensors", std::string(3 * page, 'x'));
  auto read_after_truncation = [&] {
    explain_lost_pages();
    MappedFile other(folder.write("other", "y")), file(path);
    if (truncate(path.c_str(), static_cast<off_t>(page)) != 0) _exit(9);
    volatile std::byte last = file.bytes()[2 * page];
    _exit(static_cast<int>(last) == 0 ? 7 : 8);
  };
  EXPECT_EXIT(read_after_truncation(), testing::ExitedWithCode(1), "fastkernels: .*model.safetensors .*shorter");
}

TEST(LostPages, OtherFaultsEndAProgramAsBefore) {
  TempDirectory folder;
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::string path = folder.write("a", std::string(2 * page, 'x'));
  auto fault_elsewhere = [&] {
    explain_lost_pages();
    MappedFile file(path);
    forget_pages(file.bytes().data());
    if (truncate(path.c_str(), 0) != 0) _exit(9);
    volatile std::byte last = file.bytes()[page];
    _exit(static_cast<int>(last) == 0 ? 7 : 8);
  };
  EXPECT_EXIT(fault_elsewhere(), testing::KilledBySignal(SIGBUS), "");
}

// Endless files and pipes without a writer are refused instead of read.
TEST(InputFiles, OnlyRegularFilesAreRead) {
  TempDirectory folder;
  std::string pipe = folder.path() + "/config.json";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_sentence(error_of([&] { read_config(folder.path()); }), {"config.json", "a pipe"});
  expect_sentence(error_of([&] { Tokenizer::from_file(pipe); }), {"tokenizer", "a pipe"});
  expect_sentence(error_of([&] { read_file("/dev/zero", "The text"); }), {"The text", "a device"});
  expect_sentence(error_of([&] { Tokenizer::from_file(folder.path()); }), {"a folder"});
  expect_sentence(error_of([&] { MappedFile file(pipe); }), {"not a plain file"});
  std::string large = folder.write("large", "12345");
  EXPECT_EQ(read_file(large, "The text", "", 5), "12345");
  expect_sentence(error_of([&] { read_file(large, "The text", "", 4); }), {"The text", "larger than"});
  EXPECT_FALSE(read_file("/proc/self/status", "The text").empty());
}

}  // namespace
}  // namespace fk
